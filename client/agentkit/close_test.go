package agentkit

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
)

// road is the way of a client to a service, in memory, which can be closed.
type road struct {
	listener *bufconn.Listener

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
	calls  int // that were tried
}

func (r *road) dial(ctx context.Context, _ string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("connection refused")
	}
	conn, err := r.listener.DialContext(ctx)
	if err == nil {
		r.conns = append(r.conns, conn)
	}
	return conn, err
}

func (r *road) count(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	r.mu.Lock()
	r.calls++
	r.mu.Unlock()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (r *road) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conn := range r.conns {
		_ = conn.Close() // the other end may have been first
	}
}

func (r *road) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = false
}

// An outage has used up the patience of the client, but Close waits for the service: for all its time, and not longer.
func TestClose_Outage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		outage time.Duration // after Close begins
		closed bool          // in time
	}{
		{"the service comes back", 12 * time.Second, true},
		{"the service comes back too late", DefaultCloseTimeout + time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &road{listener: bufconn.Listen(1 << 16)}
				m := newMemory(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, r.listener) })
				c, err := client.Dial("passthrough:///memoryd",
					client.WithDialOptions(grpc.WithContextDialer(r.dial), grpc.WithUnaryInterceptor(r.count)))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				s, err := New(c, namespace).Resume(t.Context(), "one")
				if err != nil {
					t.Fatal(err)
				}

				r.close()
				tries := func() (time.Duration, error) {
					began := time.Now()
					_, err := c.View(t.Context(), &memoryv1.ViewRequest{Namespace: namespace, Path: root})
					return time.Since(began), err
				}
				if took, err := tries(); took != client.DefaultRetryBudget || !client.IsUnreachable(err) {
					t.Fatalf("got %v after %v, want that the service cannot be reached", err, took)
				}
				if took, err := tries(); took != 0 || !client.IsUnreachable(err) {
					t.Fatalf("got %v after %v, want the budget used up", err, took)
				}

				r.calls = 0
				time.AfterFunc(tt.outage, r.open)
				began := time.Now()
				err = s.Close(t.Context(), Outcome{Done: "this"})
				took := time.Since(began)
				if tt.closed {
					if err != nil || took < tt.outage || took > tt.outage+3*time.Second {
						t.Fatalf("got %v after %v, want it closed soon after %v", err, took, tt.outage)
					}
				} else {
					if !client.IsUnreachable(err) || took != DefaultCloseTimeout {
						t.Fatalf("got %v after %v, want that the service cannot be reached for %v", err, took, DefaultCloseTimeout)
					}
					checkErrorHas(t, err, "connection refused") // and not only that time has passed
				}
				if n := r.calls; n < 10 || n > 150 {
					t.Errorf("got %d calls in %v, want about two in a second", n, took)
				}
				if !tt.closed {
					time.Sleep(2 * time.Second)
					m.close(t, s, Outcome{Done: "this"})
				}
				m.checkFile(t, ProgressPath, entryOne)
			})
		})
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failures := range []int{1, 2, 5, 6, 7, 1000} {
			longest := longestPause
			if failures < 6 {
				longest = firstPause << (failures - 1)
			}
			most := time.Duration(0)
			for range 200 {
				began := time.Now()
				if !pause(t.Context(), failures) {
					t.Fatal("got no time for another try")
				}
				most = max(most, time.Since(began))
			}
			if most > longest || most < longest/2 {
				t.Errorf("after %d failures: got %v at most, want up to %v", failures, most, longest)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if pause(ctx, 1) {
			t.Error("got another try after the end")
		}
	})
}
