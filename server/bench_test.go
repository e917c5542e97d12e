package server_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// benchmarkText is a file of 2 KB.
var benchmarkText = strings.Repeat("0123456789abcdef0123456789abcde\n", 64)

// benchmark calls fn b.N times with the numbers from 1, from a number of callers at a time.
func benchmark(b *testing.B, callers int, fn func(n int64) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := fn(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	calling.Wait()
	b.StopTimer()
}

// openStore opens a store on disk.
func openStore(tb testing.TB) *boltkv.Store {
	tb.Helper()
	store, err := boltkv.Open(tb.Context(), boltkv.Options{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return store
}

// BenchmarkView views a file of 2 KB through the whole service; client and server share the process, so allocations
// are those of both.
func BenchmarkView(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := servertest.New(b, servertest.WithStore(openStore(b))).Client
			_, err := c.Create(b.Context(), &memoryv1.CreateRequest{Path: "/memories/f", FileText: benchmarkText})
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, callers, func(int64) error {
				resp, err := c.View(b.Context(), &memoryv1.ViewRequest{Path: "/memories/f"})
				if err == nil && resp.GetResult().GetIsError() {
					err = fmt.Errorf("view: %v", resp.GetResult())
				}
				return err
			})
		})
	}
}

// echoService answers every View with the same response.
type echoService struct {
	memoryv1.UnimplementedMemoryServiceServer
	response *memoryv1.ViewResponse
}

// View implements memoryv1.MemoryServiceServer.
func (s *echoService) View(context.Context, *memoryv1.ViewRequest) (*memoryv1.ViewResponse, error) {
	return s.response, nil
}

// newEcho returns a client of a bare gRPC server with the options of memoryd's connections, and nothing around its
// calls.
func newEcho(tb testing.TB, response *memoryv1.ViewResponse) *client.Client {
	tb.Helper()
	listener := bufconn.Listen(256 << 10)
	s := grpc.NewServer(server.TransportOptions()...)
	memoryv1.RegisterMemoryServiceServer(s, &echoService{response: response})
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	c, err := client.Dial("passthrough:///echo", client.WithDialOptions(grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// viewed returns what a View of the file of BenchmarkView answers.
func viewed(tb testing.TB) *memoryv1.ViewResponse {
	tb.Helper()
	c := servertest.New(tb).Client
	_, err := c.Create(tb.Context(), &memoryv1.CreateRequest{Path: "/memories/f", FileText: benchmarkText})
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := c.View(tb.Context(), &memoryv1.ViewRequest{Path: "/memories/f"})
	if err != nil {
		tb.Fatal(err)
	}
	return resp
}

// BenchmarkEcho is BenchmarkView with a bare server that answers the same: what of a View is gRPC's.
func BenchmarkEcho(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := newEcho(b, viewed(b))
			benchmark(b, callers, func(int64) error {
				_, err := c.View(b.Context(), &memoryv1.ViewRequest{Path: "/memories/f"})
				return err
			})
		})
	}
}

// BenchmarkCreate creates files of 2 KB, 100 in a directory, and reports how many commits one takes.
func BenchmarkCreate(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := openStore(b)
			c := servertest.New(b, servertest.WithStore(store),
				servertest.WithSettings(memory.Settings{MaxFiles: new(int64(0))})).Client
			benchmark(b, callers, func(n int64) error {
				resp, err := c.Create(b.Context(), &memoryv1.CreateRequest{
					Path: fmt.Sprintf("/memories/%d/%d", n/100, n), FileText: benchmarkText,
				})
				if err == nil && resp.GetResult().GetIsError() {
					err = fmt.Errorf("create: %v", resp.GetResult())
				}
				return err
			})
			b.ReportMetric(float64(store.Stats().Commits)/float64(b.N), "commits/op")
		})
	}
}
