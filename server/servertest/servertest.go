// Package servertest is a memoryd for tests: the real service, with everything that is around a call, in the process
// of the test. It opens no port and writes no file.
//
//	func TestAgent(t *testing.T) {
//		memoryd := servertest.New(t)
//		handler := memoryd.Client.Handler("test")
//		// give the handler to the code under test
//	}
package servertest

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

const (
	// target names the server to gRPC, which does not look it up.
	target = "passthrough:///servertest"
	// bufferBytes is how much a connection holds that the other side has not read yet.
	bufferBytes = 256 << 10
	// shutdownTimeout is how long the end of a test waits for calls.
	shutdownTimeout = 5 * time.Second
)

// Server is a running memoryd. It stops when the test ends.
type Server struct {
	// Client is a client of it.
	Client *client.Client
	// Conn is another connection to it, for what Client does not offer.
	Conn *grpc.ClientConn
}

// Option is an option of New.
type Option func(*server.Config)

// WithStore keeps the memories in store rather than in one that is new and in memory. It stays the caller's to close.
func WithStore(store kv.Store) Option {
	return func(cfg *server.Config) { cfg.Store = store }
}

// WithSettings sets what namespaces have that set nothing themselves.
func WithSettings(settings memory.Settings) Option {
	return func(cfg *server.Config) { cfg.Defaults = settings }
}

// WithLogger gives the log of the server to logger; otherwise it is discarded.
func WithLogger(logger *slog.Logger) Option {
	return func(cfg *server.Config) { cfg.Logger = logger }
}

// New starts a memoryd that is empty unless WithStore says otherwise.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	listener := bufconn.Listen(bufferBytes)
	cfg := server.Config{Listeners: []net.Listener{listener}, ShutdownTimeout: shutdownTimeout}
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.Store == nil {
		store := memkv.New()
		tb.Cleanup(func() {
			if err := store.Close(); err != nil {
				tb.Errorf("close store: %v", err)
			}
		})
		cfg.Store = store
	}
	run(tb, cfg)

	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})
	c, err := client.Dial(target, client.WithDialOptions(dial))
	if err != nil {
		tb.Fatalf("dial server: %v", err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	conn, err := grpc.NewClient(target, dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(server.MaxResponseBytes)))
	if err != nil {
		tb.Fatalf("dial server: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &Server{Client: c, Conn: conn}
}

// run runs a server until the test has ended. The context of the test would end before its cleanup functions run, and
// those may still want the server.
func run(tb testing.TB, cfg server.Config) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	s, err := server.New(ctx, cfg)
	if err != nil {
		stop()
		tb.Fatalf("start server: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Errorf("run server: %v", err)
		}
	})
}
