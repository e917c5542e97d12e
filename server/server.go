// Package server is memoryd as a service: it opens a store, listens, and serves the API of memoryd.v1 with health
// checks and reflection until it is told to stop.
//
//	s, err := server.New(ctx, server.Config{Listen: []string{"unix:///run/memoryd.sock"}, Data: "/var/lib/memoryd"})
//	if err != nil {
//		return err
//	}
//	return s.Run(ctx) // until ctx is done
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Limits of one message in bytes. The client has the same.
const (
	MaxRequestBytes  = 16 << 20
	MaxResponseBytes = 64 << 20
)

// What connections may cost.
const (
	maxStreamsPerConn = 1000             // calls at once on one connection; the client queues more
	maxHeaderBytes    = 32 << 10         // of one call
	bufferBytes       = 32 << 10         // of the socket, each way
	handshakeTimeout  = 10 * time.Second // until a connection speaks HTTP/2
	pingAfter         = time.Minute      // without a sign of life
	pingTimeout       = 20 * time.Second // then a peer that does not answer is gone
	minPingInterval   = 10 * time.Second // of clients; one that pings more often is disconnected
)

// watchGrace is how long those who watch the health of the server have to hear that it stops.
const watchGrace = 200 * time.Millisecond

// Server is one memoryd. New makes it, and Run must be called to release what New opened.
type Server struct {
	cfg       Config
	logger    *slog.Logger
	listeners []net.Listener
	http      net.Listener // nil where the side port is off

	closeStore func() error // where New opened it

	grpc         *grpc.Server
	health       *health.Server
	metrics      *ops.Metrics
	authenticate auth.AuthFunc
	serving      atomic.Bool

	// ended is done when the streams of health and reflection have to end, which endStreams says.
	ended      context.Context
	endStreams context.CancelFunc
}

// New opens the store and binds the addresses of cfg. Where it fails, everything that it opened is closed again.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}()
	for _, l := range cfg.Listeners {
		opened.add(l.Close)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()

	// Addresses are checked first, since opening the store makes its directory; and bound last, since "that store is
	// in use by process 42" says more than "that address is in use".
	addresses, err := resolveAll(ctx, cfg)
	if err != nil {
		return nil, err
	}
	store, closeStore, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	opened.add(closeStore)
	tree, err := memory.New(store, memory.Options{Defaults: cfg.Defaults, RequestWindow: cfg.RequestWindow})
	if err != nil {
		return nil, err
	}

	s := &Server{
		cfg:          cfg,
		logger:       cfg.Logger,
		listeners:    slices.Clone(cfg.Listeners),
		closeStore:   closeStore,
		health:       health.NewServer(),
		metrics:      ops.NewMetrics(Version()),
		authenticate: trustEveryone,
	}
	s.ended, s.endStreams = context.WithCancel(context.WithoutCancel(ctx))
	for _, a := range addresses {
		l, err := listen(ctx, a)
		if err != nil {
			return nil, err
		}
		opened.add(l.Close)
		if a.field == fieldHTTP {
			s.http = l
		} else {
			s.listeners = append(s.listeners, l)
		}
	}

	s.register(tree)
	return s, nil
}

// register makes the gRPC server, with all that it serves.
func (s *Server) register(tree *memory.Memory) {
	s.grpc = grpc.NewServer(append(serverOptions(), chainOptions(s.chain())...)...)
	rpc.Register(s.grpc, rpc.Options{Memory: tree, Recorder: s.metrics})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	for _, name := range rpc.ServiceNames() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	reflection.Register(s.grpc)
	s.metrics.Initialize(s.grpc)
}

// fieldHTTP is the field of Config with the address of the side port.
const fieldHTTP = "HTTP"

// resolveAll reads and checks all addresses of cfg.
func resolveAll(ctx context.Context, cfg Config) ([]address, error) {
	type given struct{ field, address string }
	var all []given
	for _, a := range cfg.Listen {
		all = append(all, given{"Listen", a})
	}
	if cfg.HTTP != "" {
		all = append(all, given{fieldHTTP, cfg.HTTP})
	}
	var addresses []address
	for _, g := range all {
		a, err := parseAddress(g.field, g.address)
		if err != nil {
			return nil, err
		}
		a, remote, err := a.resolve(ctx, cfg.Insecure)
		if err != nil {
			return nil, err
		}
		if remote {
			cfg.Logger.WarnContext(ctx, "INSECURE: other machines can reach this address, and calls are neither "+
				"encrypted nor authenticated; whoever reaches it can read and change every memory", "address", g.address)
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxSendMsgSize(MaxResponseBytes),
		grpc.MaxConcurrentStreams(maxStreamsPerConn),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
	}
}

// Addrs returns the addresses that calls are served on: those of Config.Listeners, then those of Config.Listen.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// HTTPAddr returns the address of the side port, nil where it is off.
func (s *Server) HTTPAddr() net.Addr {
	if s.http == nil {
		return nil
	}
	return s.http.Addr()
}

// Run serves until ctx is done, then stops: it takes no more calls, lets those that run end for as long as
// Config.ShutdownTimeout, closes the store, and last the side port, which tells meanwhile that the server is not ready.
// It returns nil where every call could end, and an error where calls were cut off or something failed before.
// It must be called once.
func (s *Server) Run(ctx context.Context) error {
	var running sync.WaitGroup
	failed := make(chan error, len(s.listeners)+1)
	for _, l := range s.listeners {
		running.Go(func() {
			if err := s.grpc.Serve(l); err != nil {
				failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
			}
		})
	}
	side := ops.NewServer(s.metrics, s.serving.Load, s.logger)
	if s.http != nil {
		running.Go(func() {
			if err := side.Serve(s.http); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve on %s: %w", s.http.Addr(), err)
			}
		})
	}
	s.serving.Store(true)
	s.logger.InfoContext(ctx, "serving", s.startAttrs()...)

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.serving.Store(false)
	s.logger.InfoContext(ctx, "stopping", "timeout", s.cfg.ShutdownTimeout)
	err = errors.Join(err, s.drain(), wrap("close store", s.closeStore()), wrap("close side port", side.Close()))
	running.Wait()
	s.logger.InfoContext(ctx, "stopped")
	return err
}

// drain ends serving calls: gracefully for as long as the configuration allows, then at once.
func (s *Server) drain() error {
	s.health.Shutdown() // tells NOT_SERVING to those who watch
	defer s.endStreams()
	defer time.AfterFunc(watchGrace, s.endStreams).Stop()

	drained := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(drained)
	}()
	timeout := time.NewTimer(s.cfg.ShutdownTimeout)
	defer timeout.Stop()
	select {
	case <-drained:
		return nil
	case <-timeout.C:
		s.grpc.Stop()
		<-drained
		return fmt.Errorf("stop: calls that still ran after %s were cut off", s.cfg.ShutdownTimeout)
	}
}

func (s *Server) startAttrs() []any {
	addresses := make([]string, len(s.listeners))
	for i, addr := range s.Addrs() {
		addresses[i] = addr.String()
	}
	attrs := []any{"version", Version(), "addresses", addresses}
	if addr := s.HTTPAddr(); addr != nil {
		attrs = append(attrs, "http", addr.String())
	}
	if s.cfg.Store == nil {
		attrs = append(attrs, "data", s.cfg.Data)
	}
	return attrs
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// closers closes what was opened, the last first.
type closers []func() error

func (c *closers) add(fn func() error) { *c = append(*c, fn) }

func (c *closers) close() error {
	var err error
	for _, fn := range slices.Backward(*c) {
		err = errors.Join(err, fn())
	}
	return err
}
