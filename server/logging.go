package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/server/internal/activity"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// callLogger writes one line for every call that ends. It knows the fields it writes and looks at no others, so that
// what memories contain never gets into a log.
type callLogger struct {
	logger    *slog.Logger
	metDamage func()             // is told of a call that met damaged data
	strangers *sparse            // calls without a valid credential that are too many for a line each
	activity  *activity.Activity // nil: nobody asks for it
}

func (l *callLogger) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	began := time.Now()
	c := callFrom(ctx)
	c.received(req)
	resp, err := handler(ctx, req)
	if err == nil {
		c.sent(resp)
	}
	l.ended(ctx, c, info.FullMethod, err, time.Since(began))
	return resp, err
}

func (l *callLogger) stream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	began := time.Now()
	ctx := ss.Context()
	c := callFrom(ctx)
	err := handler(srv, &loggedStream{ss, c})
	l.ended(ctx, c, info.FullMethod, err, time.Since(began))
	return err
}

// loggedStream is a stream whose call knows of the messages.
type loggedStream struct {
	grpc.ServerStream
	call *call
}

// RecvMsg implements grpc.ServerStream.
func (s *loggedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.call.received(m)
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *loggedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.call.sent(m)
	}
	return err
}

// ended tells of a call that has ended.
func (l *callLogger) ended(ctx context.Context, c *call, method string, err error, took time.Duration) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	code := status.Code(err)
	if code == codes.DataLoss {
		l.metDamage()
	}
	namespace, result := c.about()
	l.activity.Note(activity.Call{
		Method: method, Namespace: namespace, Failed: err != nil || result.GetIsError(), Took: took,
	})
	if err != nil && auth.IsThrottled(err) {
		if times, due := l.strangers.note(); due {
			l.logger.WarnContext(ctx, "calls without a valid credential come too often for a line each",
				"peer", c.told().Peer, "times", times)
		}
		return
	}
	level := levelOf(method, code)
	if !l.logger.Enabled(ctx, level) {
		return
	}
	common := c.told()
	attrs := []slog.Attr{
		slog.String("method", method),
		slog.String("code", code.String()),
		slog.Duration("duration", took),
		slog.String(keyXRequestID, common.XRequestID),
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		attrs = append(attrs,
			slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	if common.Peer != "" {
		attrs = append(attrs, slog.String("peer", common.Peer))
	}
	if common.Principal != "" {
		attrs = append(attrs, slog.String("principal", common.Principal))
	}
	if common.Credential != "" {
		attrs = append(attrs, slog.String("credential", common.Credential))
	}
	if namespace != "" {
		attrs = append(attrs, slog.String("namespace", bounded(namespace)))
	}
	if result != nil {
		attrs = append(attrs, slog.String("reason", rpc.ReasonLabel(result.GetReason())))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", rpc.Cause(err).Error()))
	}
	l.logger.LogAttrs(ctx, level, "call", attrs...)
}

// keyXRequestID is the key of the request id of a call in the log. The audit trail has the same.
const keyXRequestID = "x_request_id"

// levelOf is how much the end of a call deserves attention: debug where all is well, info for what callers do wrong,
// warn for what the service could not do in time, error for its own faults.
func levelOf(method string, code codes.Code) slog.Level {
	switch code {
	case codes.OK:
		return slog.LevelDebug
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return slog.LevelWarn
	default:
		if !isOwn(method) {
			return slog.LevelDebug
		}
		return slog.LevelInfo
	}
}

// bounded cuts what a caller sent as the name of a namespace.
func bounded(namespace string) string {
	return namespace[:min(len(namespace), memory.MaxNamespaceBytes)]
}
