package server

import (
	"context"
	"strings"

	grpcauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
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
//   - identification is around all that answers or tells of a call, which then has the id of the call in it.
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
	log := &callLogger{
		logger: s.logger, metDamage: s.storeHealth.metDamage, strangers: &sparse{now: s.cfg.now}, activity: s.activity,
	}
	auditor := s.auditor()
	timeout := timeouts{call: s.cfg.CallTimeout, draining: s.draining, ended: s.ended}
	return []interceptor{
		{"recovery", recoveryUnary, recoveryStream},
		{"identification", identifyUnary, identifyStream},
		{"arrival", s.arrivals.unary, s.arrivals.stream},
		{"metrics", s.metrics.Unary(), s.metrics.Stream()},
		{"logging", log.unary, log.stream},
		{"audit", auditor.unary, auditor.stream},
		only(needsPrincipal, interceptor{
			"authentication", grpcauth.UnaryServerInterceptor(s.authenticate), grpcauth.StreamServerInterceptor(s.authenticate),
		}),
		{"authorization", authorizeUnary, authorizeStream},
		{"limits", only(isLimited, interceptor{unary: s.limits.unary}).unary, s.limits.stream},
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
	return []grpc.ServerOption{grpc.UnaryInterceptor(chainUnary(unary)), grpc.ChainStreamInterceptor(stream...)}
}

// chainUnary makes one interceptor of layers, the outermost first. grpc.ChainUnaryInterceptor does the same with a
// function for each layer that it makes anew for every call.
func chainUnary(layers []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		c, ctx := callIn(ctx)
		w := &c.walk
		*w = walk{layers: layers, info: info, handler: handler, next: w.step}
		return w.step(ctx, req)
	}
}

// walk is the way of one call through layers, each of which goes on at most once.
type walk struct {
	layers  []grpc.UnaryServerInterceptor // that it has not come to yet
	info    *grpc.UnaryServerInfo
	handler grpc.UnaryHandler
	next    grpc.UnaryHandler // is step
}

func (w *walk) step(ctx context.Context, req any) (any, error) {
	if len(w.layers) == 0 {
		return w.handler(ctx, req)
	}
	layer := w.layers[0]
	w.layers = w.layers[1:]
	return layer(ctx, req, w.info, w.next)
}

// only makes a layer one around the calls of the methods that match.
func only(match func(method string) bool, layer interceptor) interceptor {
	return interceptor{
		layer.name,
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if !match(info.FullMethod) {
				return handler(ctx, req)
			}
			return layer.unary(ctx, req, info, handler)
		},
		func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if !match(info.FullMethod) {
				return handler(srv, ss)
			}
			return layer.stream(srv, ss, info, handler)
		},
	}
}

// needsPrincipal matches all but health checks, whose callers need not say who they are.
func needsPrincipal(method string) bool { return accessTo(method).need != needNothing }

// isOwn matches the methods of memoryd's own services, and so neither health checks, which tell of a server that is
// overloaded too, nor reflection.
func isOwn(method string) bool { return isOwnService(strings.TrimPrefix(method, "/")) }

// isLimited matches the methods whose calls need a slot: all of memoryd but for the one that shows what has taken the
// slots, which only those who may administer everything can call.
func isLimited(method string) bool {
	return isOwn(method) && method != memoryv1.AdminService_GetActivity_FullMethodName
}

func isOwnService(service string) bool { return strings.HasPrefix(service, "memoryd.") }
