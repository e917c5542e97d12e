package server

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// A panic while it is found out who calls, before the first layer, ends the call and not the process.
func TestCallersFirst_Panics(t *testing.T) {
	s := newChained(slog.New(slog.DiscardHandler))
	s.auth = &auth.Authenticator{} // which has nothing that it needs
	const method = memoryv1.MemoryService_View_FullMethodName
	handler := callersFirst{server: s}.handler(method, func(
		any, context.Context, func(any) error, grpc.UnaryServerInterceptor,
	) (any, error) {
		t.Error("the request is read")
		return nil, nil
	})
	authenticated := func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return s.authenticate(ctx)
	}
	_, err := handler(nil, as(t, "alice"), func(any) error { return nil }, authenticated)
	wantStatus(t, err, codes.Internal, "INTERNAL")
}
