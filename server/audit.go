package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// auditor writes the audit trail: what calls changed, and what they were refused. What a call did is in the trail of
// its context.
type auditor struct {
	log    *audit.Log // nil: there is none
	logger *slog.Logger
	failed func() // counts a line that could not be written
	now    func() time.Time
}

func (s *Server) auditor() *auditor {
	return &auditor{log: s.auditLog, logger: s.logger, failed: s.metrics.AuditFailed, now: time.Now}
}

// auditLogFile is the audit trail as what is reloaded: it is opened anew and not read.
func auditLogFile(log *audit.Log, path string) reloadable {
	return reloadable{what: "audit_log", load: func(context.Context, [][]byte) ([]slog.Attr, error) {
		return []slog.Attr{slog.String("file", path)}, log.Reopen()
	}}
}

func (a *auditor) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	resp, err := handler(ctx, req)
	a.called(ctx, info.FullMethod, err)
	return resp, err
}

func (a *auditor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(srv, ss)
	a.called(ss.Context(), info.FullMethod, err)
	return err
}

// called writes what a call that has ended did.
func (a *auditor) called(ctx context.Context, method string, err error) {
	// What comes after so many failures of one address is not told line by line, or strangers would fill the disk.
	if a.log == nil || auth.IsThrottled(err) {
		return
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	outcome := audit.OutcomeOK
	if err != nil {
		outcome = code.Code(status.Code(err)).String()
	}
	c := callFrom(ctx)
	if !c.trail.HasEvents() && !accessTo(method).audited && !denied(err) {
		return
	}
	c.trail.SetMethod(method)
	common := c.told()
	events := c.trail.Events()
	if len(events) == 0 {
		events = append(events, common)
	}
	for i := range events {
		if events[i].Outcome == "" {
			events[i].Outcome = outcome
		}
	}
	a.writeAll(ctx, events)
}

// denied tells whether a call was refused for who made it.
func denied(err error) bool {
	c := status.Code(err)
	return c == codes.PermissionDenied || c == codes.Unauthenticated
}

// write writes a line.
func (a *auditor) write(ctx context.Context, e audit.Event) { a.writeAll(ctx, []audit.Event{e}) }

// writeAll writes the lines of one call. A trail that cannot be written must not end the service, so that it is told
// and counted.
func (a *auditor) writeAll(ctx context.Context, events []audit.Event) {
	if len(events) == 0 {
		return
	}
	now := a.now()
	for i := range events {
		events[i].Time = now
	}
	n, err := a.log.Write(events...)
	if err == nil {
		return
	}
	lost := len(events) - n
	for range lost {
		a.failed()
	}
	a.logger.ErrorContext(ctx, "cannot write audit trail", "method", events[0].Method, "lines", lost, "error", err)
}
