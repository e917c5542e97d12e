package server

import (
	"context"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// interceptor is one layer around every call.
type interceptor struct {
	name   string
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// chain returns the layers around every call, outermost first. The order matters:
//
//   - recovery is outermost, so that a panic in any layer ends one call and not the process.
//   - arrival is around all else, since it has waited for the request, and a stop waits for the end of a call.
//   - metrics and logging are outside all that can refuse a call, so that refusals are seen.
//   - authentication is before limits, so that strangers use up nobody's share.
//   - the timeout starts when a call is let in.
//   - recovery is innermost too, so that a panic of a handler is an error to all of the above.
func (s *Server) chain() []interceptor {
	recovered := recovery.WithRecoveryHandlerContext(s.recovered)
	recoveryUnary := recovery.UnaryServerInterceptor(recovered)
	recoveryStream := recovery.StreamServerInterceptor(recovered)
	log := callLogger{logger: s.logger, metDamage: s.storeHealth.metDamage}
	limit := newLimiter(s.cfg.MaxConcurrentCalls, s.cfg.MaxConcurrentBytes)
	timeout := timeouts{call: s.cfg.CallTimeout, draining: s.draining, ended: s.ended}
	return []interceptor{
		{"recovery", recoveryUnary, recoveryStream},
		{"arrival", s.arrivals.unary, s.arrivals.stream},
		{"metrics", s.metrics.Unary(), s.metrics.Stream()},
		{"logging", interceptors.UnaryServerInterceptor(log), interceptors.StreamServerInterceptor(log)},
		{
			"authentication",
			selector.UnaryServerInterceptor(auth.UnaryServerInterceptor(s.authenticate), exceptHealth),
			selector.StreamServerInterceptor(auth.StreamServerInterceptor(s.authenticate), exceptHealth),
		},
		{
			"limits",
			selector.UnaryServerInterceptor(limit.unary, ownServices),
			selector.StreamServerInterceptor(limit.stream, ownServices),
		},
		{"timeout", timeout.unary, timeout.stream},
		{"recovery", recoveryUnary, recoveryStream},
	}
}

// chainOptions makes the layers options of gRPC.
func chainOptions(chain []interceptor) []grpc.ServerOption {
	var unary []grpc.UnaryServerInterceptor
	var stream []grpc.StreamServerInterceptor
	for _, i := range chain {
		unary = append(unary, i.unary)
		stream = append(stream, i.stream)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

// trustEveryone takes every caller as it is: whoever reaches a loopback address or the socket is trusted.
func trustEveryone(ctx context.Context) (context.Context, error) { return ctx, nil }

// exceptHealth matches all but health checks, whose callers need not say who they are.
var exceptHealth = selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
	return call.Service != healthpb.Health_ServiceDesc.ServiceName
})

// ownServices matches the services of memoryd, and so neither health checks, which tell of a server that is overloaded
// too, nor reflection.
var ownServices = selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
	return isOwnService(call.Service)
})

func isOwnService(service string) bool { return strings.HasPrefix(service, "memoryd.") }
