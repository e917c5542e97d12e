package boltkv

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkUpdate measures small updates by a number of callers at a time. Besides time it reports how many commits and
// how many bytes of pages an update takes.
func BenchmarkUpdate(b *testing.B) {
	value := strings.Repeat("v", 500)
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := openTest(b, Options{Dir: b.TempDir()})
			var next atomic.Int64
			began, pages := store.Stats(), store.db.Stats()
			b.ResetTimer()
			done := make(chan error, callers)
			for caller := range callers {
				go func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							done <- nil
							return
						}
						key := fmt.Sprintf("key-%d", n%1000)
						scope := fmt.Sprintf("scope-%d", caller)
						if err := store.Update(b.Context(), scope, put(key, value)); err != nil {
							done <- err
							return
						}
					}
				}()
			}
			for range callers {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.StopTimer()
			now := store.db.Stats()
			written := now.TxStats.GetPageAlloc() - pages.TxStats.GetPageAlloc()
			b.ReportMetric(float64(store.Stats().Commits-began.Commits)/float64(b.N), "commits/op")
			b.ReportMetric(float64(written)/float64(b.N), "written-B/op")
		})
	}
}
