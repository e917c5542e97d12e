package server

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc/peer"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// newSideServer returns the server of the side port.
func (s *Server) newSideServer() *http.Server {
	opts := ops.Options{
		Metrics: s.metrics, Ready: s.ready, Authenticate: s.authenticateHTTP(), ConnContext: withSocket, Logger: s.logger,
	}
	if s.cfg.Pprof {
		opts.MayProfile = s.mayProfile
	}
	if s.security.tls != nil {
		opts.TLS = s.security.tls.config("h2", "http/1.1")
	}
	return ops.NewServer(opts)
}

// authenticateHTTP is what asks who makes a request to the side port, and counts failures; nil where identity is off.
func (s *Server) authenticateHTTP() func(*http.Request) (context.Context, error) {
	if s.auth == nil {
		return nil
	}
	return func(r *http.Request) (context.Context, error) {
		p, err := s.auth.AuthenticateHTTP(r)
		if err != nil {
			s.metrics.AuthenticationFailed()
			return nil, err
		}
		return auth.NewContext(r.Context(), p), nil
	}
}

// mayProfile tells whether the sender of a request may read profiles, which are of the whole process, as channelz is.
func (s *Server) mayProfile(r *http.Request) bool {
	return s.auth == nil || auth.FromContext(r.Context()).MayEverywhere(auth.Admin)
}

// serveSide serves the side port on a listener: unix sockets are plain, as they are for calls.
func (s *Server) serveSide(side *http.Server, l net.Listener) error {
	if side.TLSConfig == nil || l.Addr().Network() == "unix" {
		return side.Serve(l)
	}
	return side.ServeTLS(l, "", "")
}

// withSocket tells the authenticator who is at the other end of a unix socket.
func withSocket(ctx context.Context, conn net.Conn) context.Context {
	if !isSocket(conn) {
		return ctx
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: conn.RemoteAddr(), AuthInfo: socketInfo(conn)})
}
