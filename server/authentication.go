package server

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// caller is who makes a call, or why that is not known. The zero value is that nobody has asked yet.
type caller struct {
	principal *auth.Principal
	err       error
}

// known tells whether somebody has asked.
func (c caller) known() bool { return c.principal != nil || c.err != nil }

// callerOf finds out who makes a call. Without identity, everyone who can connect may do everything. A panic is an
// error of this call, as in the layers: this may run before the first of them.
func (s *Server) callerOf(ctx context.Context) (c caller) {
	defer func() {
		if p := recover(); p != nil {
			c = caller{err: s.recovered(ctx, p)}
		}
	}()
	if s.auth == nil {
		return caller{principal: auth.Everyone()}
	}
	p, err := s.auth.Authenticate(ctx)
	if err != nil {
		s.metrics.AuthenticationFailed()
	}
	s.conns.authenticated(ctx, err == nil)
	return caller{p, err}
}

// authenticate is the layer that refuses who is not known.
func (s *Server) authenticate(ctx context.Context) (context.Context, error) {
	c, ctx := callIn(ctx)
	if !c.caller.known() {
		c.caller = s.callerOf(ctx)
	}
	if err := c.caller.err; err != nil {
		return nil, rpc.StatusError(err)
	}
	c.trail.SetPrincipal(c.caller.principal.Name, c.caller.principal.Credential)
	return ctx, nil
}

// callersFirst registers services so that the callers of unary methods are known before their requests are read: gRPC
// reads and decodes the whole of a request before the first interceptor, and a stranger's is worth no memory. The
// interceptors then run without a request and come to the layer that refuses it, so that they see such a call as any
// other. Streams need none of this: their interceptors run before anything is read.
type callersFirst struct {
	grpc.ServiceRegistrar
	server *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r callersFirst) RegisterService(desc *grpc.ServiceDesc, impl any) {
	known := *desc
	known.Methods = slices.Clone(desc.Methods)
	for i, m := range known.Methods {
		fullMethod := "/" + desc.ServiceName + "/" + m.MethodName
		if accessTo(fullMethod).need != needNothing {
			known.Methods[i].Handler = r.handler(fullMethod, m.Handler)
		}
	}
	r.ServiceRegistrar.RegisterService(&known, impl)
}

func (r callersFirst) handler(fullMethod string, next grpc.MethodHandler) grpc.MethodHandler {
	return func(
		srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor,
	) (any, error) {
		if r.server.auth == nil { // Nobody is refused, so that the layer of authentication is early enough.
			return next(srv, ctx, dec, interceptor)
		}
		c, ctx := callIn(ctx)
		c.caller = r.server.callerOf(ctx)
		if c.caller.err == nil {
			return next(srv, ctx, dec, interceptor)
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
		return interceptor(ctx, nil, info, func(context.Context, any) (any, error) {
			return nil, rpc.StatusError(c.caller.err) // The layer of authentication does not let it come here.
		})
	}
}
