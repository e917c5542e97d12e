package server

import (
	"context"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	grpcauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
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
//   - metrics, logging and audit are outside all that can refuse a call, so that refusals are seen.
//   - authentication and authorization are before limits, so that strangers use up nobody's share. Who calls a unary
//     method is found out before its request is read: see callersFirst.
//   - the timeout starts when a call is let in.
//   - recovery is innermost too, so that a panic of a handler is an error to all of the above.
func (s *Server) chain() []interceptor {
	recovered := recovery.WithRecoveryHandlerContext(s.recovered)
	recoveryUnary := recovery.UnaryServerInterceptor(recovered)
	recoveryStream := recovery.StreamServerInterceptor(recovered)
	log := callLogger{logger: s.logger, metDamage: s.storeHealth.metDamage, strangers: &sparse{now: s.cfg.now}}
	auditor := s.auditor()
	limit := newLimiter(s.cfg.MaxConcurrentCalls, s.cfg.MaxConcurrentBytes)
	timeout := timeouts{call: s.cfg.CallTimeout, draining: s.draining, ended: s.ended}
	return []interceptor{
		{"recovery", recoveryUnary, recoveryStream},
		{"arrival", s.arrivals.unary, s.arrivals.stream},
		{"metrics", s.metrics.Unary(), s.metrics.Stream()},
		{"logging", interceptors.UnaryServerInterceptor(log), interceptors.StreamServerInterceptor(log)},
		{"audit", auditor.unary, auditor.stream},
		{
			"authentication",
			selector.UnaryServerInterceptor(grpcauth.UnaryServerInterceptor(s.authenticate), needsPrincipal),
			selector.StreamServerInterceptor(grpcauth.StreamServerInterceptor(s.authenticate), needsPrincipal),
		},
		{"authorization", authorizeUnary, authorizeStream},
		{
			"limits",
			selector.UnaryServerInterceptor(limit.unary, ownServices),
			limit.stream,
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

// needsPrincipal matches all but health checks, whose callers need not say who they are.
var needsPrincipal = selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
	return accessTo(call.FullMethod()).need != needNothing
})

// ownServices matches the services of memoryd, and so neither health checks, which tell of a server that is overloaded
// too, nor reflection.
var ownServices = selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
	return isOwnService(call.Service)
})

func isOwnService(service string) bool { return strings.HasPrefix(service, "memoryd.") }
