package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// callLogger writes one line for every call that ends. It knows the fields it writes and looks at no others, so that
// what memories contain never gets into a log.
type callLogger struct {
	logger    *slog.Logger
	metDamage func()  // is told of a call that met damaged data
	strangers *sparse // calls without a valid credential that are too many for a line each
}

// ServerReporter implements interceptors.ServerReportable.
func (l callLogger) ServerReporter(ctx context.Context, call interceptors.CallMeta) (
	interceptors.Reporter, context.Context,
) {
	ctx, trail := audit.NewContext(ctx)
	if p, ok := peer.FromContext(ctx); ok {
		trail.SetPeer(p.Addr.String())
	}
	return &callReport{ctx: ctx, callLogger: l, call: call, trail: trail}, ctx
}

// callReport is what is known of one call.
type callReport struct {
	callLogger
	ctx  context.Context
	call interceptors.CallMeta
	// trail is what the layers within tell of the call; the audit trail has it too.
	trail *audit.Trail

	mu        sync.Mutex // messages of a stream may come while the call ends
	namespace string
	result    *memoryv1.ToolResult
}

// PostMsgReceive implements interceptors.Reporter.
func (r *callReport) PostMsgReceive(req any, err error, _ time.Duration) {
	if err != nil {
		return
	}
	if put, ok := req.(*memoryv1.PutRequest); ok {
		req = put.GetHeader()
	}
	if m, ok := req.(interface{ GetNamespace() string }); ok && m.GetNamespace() != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.namespace = m.GetNamespace()
	}
}

// PostMsgSend implements interceptors.Reporter.
func (r *callReport) PostMsgSend(resp any, err error, _ time.Duration) {
	if err != nil {
		return
	}
	if get, ok := resp.(*memoryv1.GetResponse); ok {
		resp = get.GetHeader()
	}
	if m, ok := resp.(interface{ GetResult() *memoryv1.ToolResult }); ok && m.GetResult() != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result = m.GetResult()
	}
}

// PostCall implements interceptors.Reporter.
func (r *callReport) PostCall(err error, duration time.Duration) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if status.Code(err) == codes.DataLoss {
		r.metDamage()
	}
	if auth.IsThrottled(err) {
		if times, due := r.strangers.note(); due {
			r.logger.WarnContext(r.ctx, "calls without a valid credential come too often for a line each",
				"peer", r.trail.Common().Peer, "times", times)
		}
		return
	}
	level := r.level(status.Code(err))
	if !r.logger.Enabled(r.ctx, level) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	attrs := []slog.Attr{
		slog.String("method", r.call.FullMethod()),
		slog.String("code", status.Code(err).String()),
		slog.Duration("duration", duration),
	}
	common := r.trail.Common()
	if common.Peer != "" {
		attrs = append(attrs, slog.String("peer", common.Peer))
	}
	if common.Principal != "" {
		attrs = append(attrs, slog.String("principal", common.Principal))
	}
	if common.Credential != "" {
		attrs = append(attrs, slog.String("credential", common.Credential))
	}
	if r.namespace != "" {
		attrs = append(attrs, slog.String("namespace", bounded(r.namespace)))
	}
	if r.result != nil {
		attrs = append(attrs, slog.String("reason", rpc.ReasonLabel(r.result.GetReason())))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", rpc.Cause(err).Error()))
	}
	r.logger.LogAttrs(r.ctx, level, "call", attrs...)
}

// level is how much the end of a call deserves attention: debug where all is well, info for what callers do wrong,
// warn for what the service could not do in time, error for its own faults.
func (r *callReport) level(code codes.Code) slog.Level {
	switch code {
	case codes.OK:
		return slog.LevelDebug
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return slog.LevelWarn
	default:
		if !isOwnService(r.call.Service) {
			return slog.LevelDebug
		}
		return slog.LevelInfo
	}
}

// bounded cuts what a caller sent as the name of a namespace.
func bounded(namespace string) string {
	return namespace[:min(len(namespace), memory.MaxNamespaceBytes)]
}
