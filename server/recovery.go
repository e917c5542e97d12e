package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"

	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// recovered turns a panic into an error. The stack goes to the log and nowhere else: the caller is told "internal
// error".
func (s *Server) recovered(ctx context.Context, p any) error {
	method, _ := grpc.Method(ctx)
	c, ctx := callIn(ctx)
	s.logger.ErrorContext(ctx, "panic in a call", "method", method, keyXRequestID, c.id(), "panic", fmt.Sprint(p),
		"stack", string(debug.Stack()))
	return rpc.WithRequestID(rpc.StatusError(fmt.Errorf("panic: %v", p)), c.id())
}
