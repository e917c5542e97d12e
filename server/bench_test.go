package server_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
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
func openStore(b *testing.B) *boltkv.Store {
	b.Helper()
	store, err := boltkv.Open(b.Context(), boltkv.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
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
