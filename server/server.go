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
	"cmp"
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

	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/seed-7f2870e1/memoryd/server/internal/activity"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Limits of one message in bytes. The client has the same.
const (
	MaxRequestBytes  = 16 << 20
	MaxResponseBytes = 64 << 20
)

// What connections may cost.
const (
	maxConnections    = 8192             // for calls; about 70 KB each
	maxHTTPConns      = 32               // of the side port
	maxStreamsPerConn = 256              // calls at once on one connection; the client queues more
	streamWorkers     = 128              // goroutines that are kept, since the stack of a new one has to grow first
	maxHeaderBytes    = 32 << 10         // of one call
	bufferBytes       = 32 << 10         // of the socket, each way
	handshakeTimeout  = 10 * time.Second // until a connection speaks HTTP/2
	closeIdleAfter    = 5 * time.Minute  // without a call; clients connect again when they have one
	pingAfter         = time.Minute      // without a sign of life
	pingTimeout       = 20 * time.Second // then a peer that does not answer is gone
	minPingInterval   = 10 * time.Second // of clients; one that pings more often is disconnected
)

// timings are for tests that do not wait as long as the constants say; zero values are those.
type timings struct {
	handshake, pingAfter, pingTimeout time.Duration
	poll                              time.Duration // of files
}

func (t timings) withDefaults() timings {
	return timings{
		handshake:   cmp.Or(t.handshake, handshakeTimeout),
		pingAfter:   cmp.Or(t.pingAfter, pingAfter),
		pingTimeout: cmp.Or(t.pingTimeout, pingTimeout),
		poll:        cmp.Or(t.poll, pollEvery),
	}
}

// watchGrace is how long those who watch the health of the server have to hear that it stops.
const watchGrace = 200 * time.Millisecond

// Server is one memoryd. New makes it, and Run must be called to release what New opened.
type Server struct {
	cfg       Config
	logger    *slog.Logger
	listeners []net.Listener
	http      net.Listener // nil where the side port is off

	closeStore func() error // where New opened it

	grpc        *grpc.Server
	health      *health.Server
	metrics     *ops.Metrics
	activity    *activity.Activity
	backups     *backupSchedule // nil where there is none
	sweeper     *sweeper
	sealing     *sealing // nil where the store is not encrypted
	security    *security
	auth        *auth.Authenticator // of security; nil: whoever can connect may do everything
	auditLog    *audit.Log          // nil: there is none
	serving     atomic.Bool
	started     chan struct{} // closed once calls are served
	storeHealth *storeHealth
	arrivals    *arrivals
	conns       *connections // of calls
	limits      *limiter

	// draining is done when the server begins to stop, which startDraining says.
	draining      context.Context
	startDraining context.CancelFunc
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
	metrics := ops.NewMetrics(Version())
	sec, err := openSecurity(ctx, cfg, metrics)
	if err != nil {
		return nil, err
	}
	opened.add(func() error { sec.close(); return nil })
	store, closeStore, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	opened.add(closeStore)
	tree, err := memory.New(traced(store, cfg), memory.Options{
		Defaults: cfg.Defaults, RequestWindow: cfg.RequestWindow,
		Screener: newScreener(metrics), Report: secretReporter{cfg.Logger, metrics}.report,
		Replayed: metrics.Replayed,
	})
	if err != nil {
		return nil, err
	}

	s := &Server{
		cfg:        cfg,
		logger:     cfg.Logger,
		listeners:  slices.Clone(cfg.Listeners),
		closeStore: closeStore,
		health:     health.NewServer(),
		metrics:    metrics,
		activity:   newActivity(cfg),
		security:   sec,
		auth:       sec.auth,
		started:    make(chan struct{}),
	}
	if stats, ok := kv.As[kv.StatsReporter](store); ok {
		s.metrics.Store(stats.Stats)
		stats.ObserveCommits(s.committed)
	}
	if s.sealing = newSealing(cfg, store, s.metrics); s.sealing != nil {
		s.metrics.DataKeys(0, 0, 0)
		sec.reloads.watch(s.sealing.reloadable())
	}
	if s.auditLog, err = openAuditLog(cfg); err != nil {
		return nil, err
	}
	if s.auditLog != nil {
		sec.reloads.watch(auditLogFile(s.auditLog, cfg.AuditLog))
	}
	opened.add(s.auditLog.Close)
	s.sweeper = newSweeper(tree, s.auditor(), s.metrics, s.logger)
	if s.backups, err = newBackupSchedule(cfg, store, s.metrics); err != nil {
		return nil, err
	}
	s.draining, s.startDraining = context.WithCancel(context.WithoutCancel(ctx))
	s.ended, s.endStreams = context.WithCancel(context.WithoutCancel(ctx))
	s.arrivals = &arrivals{timeout: cfg.CallTimeout, draining: s.draining, gaveUp: s.metrics.RequestGivenUp}
	s.conns = newConnections(maxConnections, remoteAddress, cfg.Logger)
	s.conns.slowStrangers = s.auth != nil
	s.limits = newLimiter(cfg.MaxConcurrentCalls, cfg.MaxConcurrentBytes)
	s.metrics.Load(s.loadMetrics())
	for _, a := range addresses { // The side port is the last.
		l, err := listen(ctx, a, cfg.SocketMode, s.listeners)
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

	s.register(store, tree)
	return s, nil
}

// register makes the gRPC server, with all that it serves.
func (s *Server) register(store kv.Store, tree *memory.Memory) {
	s.storeHealth = newStoreHealth(store, s.health, s.metrics, s.logger) // The chain tells it of damage.
	opts := append(transportOptions(s.cfg.times), grpc.Creds(s.security.credentials()), grpc.InTapHandle(s.arrivals.begin))
	opts = append(opts, tracingOptions(s.cfg)...)
	s.grpc = grpc.NewServer(append(opts, chainOptions(s.chain())...)...)
	backuper, _ := kv.As[kv.Backuper](store)
	registrar := callersFirst{s.grpc, s}
	rpc.Register(registrar, rpc.Options{
		Memory: tree, Backuper: backuper, Recorder: s.metrics, Activity: s.activityOptions(store),
	})
	healthpb.RegisterHealthServer(registrar, s.health)
	reflection.Register(s.grpc)
	if s.cfg.Channelz {
		channelz.RegisterChannelzServiceToServer(registrar)
	}
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
		a, remote, err := a.resolve(ctx)
		if err != nil {
			return nil, err
		}
		if danger := dangerOf(a.field, cfg); remote && danger != nil {
			if !cfg.Insecure {
				return nil, danger.refusal(a)
			}
			cfg.Logger.WarnContext(ctx, "INSECURE: other machines can reach this address, and "+danger.is+"; "+danger.can,
				"address", g.address)
		}
		if a.openToUsers(cfg) {
			cfg.Logger.WarnContext(ctx, "INSECURE: every user of this machine can connect to this address, and nobody is "+
				"authenticated; whoever connects can read and change every memory", "address", g.address)
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

// TransportOptions returns the options of gRPC for how a Server serves connections: its limits of messages, calls and
// headers, its buffers, and when it closes what is idle. A server with these and nothing around its calls is what a
// benchmark compares memoryd with.
func TransportOptions() []grpc.ServerOption { return transportOptions(timings{}.withDefaults()) }

func transportOptions(times timings) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxSendMsgSize(MaxResponseBytes),
		grpc.MaxConcurrentStreams(maxStreamsPerConn),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(times.handshake),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: closeIdleAfter, Time: times.pingAfter, Timeout: times.pingTimeout,
		}),
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

// Started returns a channel that is closed once Run serves calls. It stays open where Run fails before.
func (s *Server) Started() <-chan struct{} { return s.started }

// Run serves until ctx is done, then stops: it takes no more calls, lets those that run end for as long as
// Config.ShutdownTimeout, closes the store, and last the side port, which tells meanwhile that the server is not ready.
// It returns nil where every call could end, and an error where calls were cut off or something failed before.
// It must be called once.
func (s *Server) Run(ctx context.Context) error {
	stopSweeper := s.sweeper.begin(ctx)
	var running sync.WaitGroup
	failed := make(chan error, len(s.listeners)+1)
	for _, l := range s.listeners {
		running.Go(func() {
			if err := s.grpc.Serve(s.conns.wrap(l)); err != nil {
				failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
			}
		})
	}
	side := s.newSideServer()
	if s.http != nil {
		running.Go(func() {
			l := newConnections(maxHTTPConns, auth.PeerKey, s.logger).wrap(s.http)
			if err := s.serveSide(side, l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve on %s: %w", s.http.Addr(), err)
			}
		})
	}
	scheduled, stopBackups := context.WithCancel(ctx)
	defer stopBackups()
	if s.backups != nil {
		running.Go(func() { s.backups.run(scheduled) })
	}
	if s.sealing != nil {
		running.Go(func() { s.sealing.run(scheduled) })
	}
	fileTicks := time.NewTicker(s.cfg.times.poll)
	defer fileTicks.Stop()
	running.Go(func() { s.followFiles(s.draining, fileTicks.C) })
	s.storeHealth.check(ctx)
	healthTicks := time.NewTicker(healthInterval)
	defer healthTicks.Stop()
	running.Go(func() { s.storeHealth.follow(s.draining, healthTicks.C) })
	s.serving.Store(true)
	close(s.started)
	s.logger.InfoContext(ctx, "serving", s.startAttrs()...)

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.serving.Store(false)
	stopBackups()
	s.logger.InfoContext(ctx, "stopping", "timeout", s.cfg.ShutdownTimeout)
	cutOff := s.drain()
	stopSweeper(cutOff != nil)
	err = errors.Join(err, cutOff, wrap("close store", s.closeStore()), wrap("close side port", side.Close()))
	running.Wait()
	s.security.close()
	err = errors.Join(err, s.auditLog.Close())
	s.logger.InfoContext(ctx, "stopped")
	return err
}

// drain ends serving calls: gracefully for as long as the configuration allows, then at once.
func (s *Server) drain() error {
	s.startDraining()
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
	quiet := time.NewTicker(patience)
	defer quiet.Stop()
	seen := s.progress()
	for {
		select {
		case <-drained:
			return nil
		case <-quiet.C:
			// gRPC waits for connections to shake hands, for clients to acknowledge the end of theirs, and for answers
			// to be taken. Where no call has run and no byte has come or gone for as long as that, nothing is to come.
			now := s.progress()
			if now == seen && s.arrivals.running.Load() == 0 {
				s.conns.closeAll()
			}
			seen = now
		case <-timeout.C:
			s.conns.closeAll() // Stop would wait for those that shake hands.
			s.grpc.Stop()
			<-drained
			return fmt.Errorf("stop: calls that still ran after %s were cut off", s.cfg.ShutdownTimeout)
		}
	}
}

// progress is a number that grows whenever a call has ended, or something was sent or received.
func (s *Server) progress() int64 {
	return s.arrivals.finished.Load() + s.conns.receivedBytes() + s.conns.sentBytes()
}

func (s *Server) startAttrs() []any {
	addresses := make([]string, len(s.listeners))
	for i, addr := range s.Addrs() {
		addresses[i] = showAddr(addr)
	}
	attrs := []any{
		"version", Version(), "addresses", addresses, "tls", s.security.tls != nil, "identity", s.auth != nil,
	}
	if addr := s.HTTPAddr(); addr != nil {
		attrs = append(attrs, "http", showAddr(addr))
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
