package anthropictool_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

// service is a memoryd that can die and come back. It keeps its store.
type service struct {
	store  *store
	missed chan struct{} // gets a value, if there is room, when a client finds nobody

	mu       sync.Mutex
	listener *bufconn.Listener // nil: it is away
	conns    []net.Conn        // of its clients
	stop     func()            // of the server that runs
}

// store tells when a change is made, before it is answered.
type store struct {
	kv.Store
	changed atomic.Pointer[func()]
}

func (s *store) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	err := s.Store.Update(ctx, scope, fn)
	if changed := s.changed.Load(); changed != nil && err == nil && scope != kv.ReservedScope {
		(*changed)()
	}
	return err
}

// onChange calls fn after the n-th change of a memory from now on.
func (s *store) onChange(n int64, fn func()) {
	var count atomic.Int64
	changed := func() {
		if count.Add(1) == n {
			fn()
		}
	}
	s.changed.Store(&changed)
}

func startService(t *testing.T) *service {
	t.Helper()
	s := &service{store: &store{Store: memkv.New()}, missed: make(chan struct{}, 1), stop: func() {}}
	s.restart(t)
	t.Cleanup(func() {
		s.die()
		s.stop()
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client returns a client of the service, of which the test may have several, as processes have that follow each other.
func (s *service) client(t *testing.T, opts ...grpc.DialOption) *client.Client {
	t.Helper()
	opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return s.dial(ctx)
	}))
	c, err := client.Dial("passthrough:///memoryd", client.WithDialOptions(opts...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *service) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		select {
		case s.missed <- struct{}{}:
		default:
		}
		return nil, errors.New("nobody is there")
	}
	conn, err := s.listener.DialContext(ctx)
	if err == nil {
		s.conns = append(s.conns, conn)
	}
	return conn, err
}

// die lets the service vanish for its clients, in the middle of whatever they have asked for.
func (s *service) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = nil
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// restart starts the service on its store, once the one before has ended. It is called by one goroutine at a time.
func (s *service) restart(t *testing.T) {
	s.die()
	s.stop()
	listener := bufconn.Listen(256 << 10)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	memoryd, err := server.New(ctx, server.Config{
		Listeners: []net.Listener{listener}, Store: s.store, ShutdownTimeout: 5 * time.Second,
	})
	if err != nil {
		cancel()
		t.Errorf("start memoryd: %v", err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- memoryd.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run memoryd: %v", err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = listener
}

// restartWhenMissed starts the service again as soon as a client has found nobody.
func (s *service) restartWhenMissed(t *testing.T) {
	restarted, ctx := make(chan struct{}), t.Context()
	go func() {
		defer close(restarted)
		select {
		case <-s.missed:
			s.restart(t)
		case <-ctx.Done():
			t.Error("no client missed the service")
		}
	}()
	t.Cleanup(func() { <-restarted })
}
