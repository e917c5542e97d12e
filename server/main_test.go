package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server that runs until the test ends or stop is called.
type running struct {
	*Server
	conn *grpc.ClientConn // to the first address
	stop func() error     // stops it and returns what Run returned; further calls return the same
}

// start runs a server on an address of its own unless cfg says otherwise.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	if len(cfg.Listen) == 0 && len(cfg.Listeners) == 0 {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	if cfg.Store == nil && cfg.Data == "" {
		cfg.Store = newStore(t)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := New(ctx, cfg)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{Server: s, conn: dial(t, s.Addrs()[0])}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := r.conn.Close(); err != nil {
			t.Error(err)
		}
		_ = r.stop() // Tests that care call it themselves.
	})
	return r
}

func dial(t *testing.T, addr net.Addr) *grpc.ClientConn {
	t.Helper()
	target := addr.String()
	if addr.Network() == "unix" {
		target = "unix:" + target
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func newStore(t *testing.T) kv.Store {
	t.Helper()
	store := memkv.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// hookedStore calls view before every View.
type hookedStore struct {
	kv.Store
	view func(ctx context.Context) error
}

func (s *hookedStore) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	if err := s.view(ctx); err != nil {
		return err
	}
	return s.Store.View(ctx, scope, fn)
}

// gate lets views tell that they came, and keeps them until it is opened or their context is done.
type gate struct {
	entered chan struct{}
	opened  chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), opened: make(chan struct{})} }

func (g *gate) wait(ctx context.Context) error {
	g.entered <- struct{}{}
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logBuffer is a log that tests read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// wantStatus checks the code of an error and the reason in its ErrorInfo.
func wantStatus(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	st := status.Convert(err)
	got := ""
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			got = info.GetReason()
		}
	}
	if st.Code() != code || got != reason {
		t.Errorf("got %v with reason %q, want code %v and reason %q", err, got, code, reason)
	}
}
