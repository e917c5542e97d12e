package sealkv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

// BenchmarkOverhead compares a sealed store with one that is not, in turns, so that both meet the same machine. The
// contents are what an edit of a file reads and writes: one value of the size, among four small records.
func BenchmarkOverhead(b *testing.B) {
	for engine, open := range map[string]func(dir string) kv.Store{
		"memkv":  func(string) kv.Store { return memkv.New() },
		"boltkv": func(dir string) kv.Store { return mustOpen(b, dir) },
	} {
		for _, size := range []int{2 << 10, 64 << 10} {
			plain := open(b.TempDir())
			below := kv.Store(newMem())
			if engine == "boltkv" {
				below = openBolt(b, b.TempDir())
			}
			sealed := openChecked(b, below, newKeyset(b))
			b.Cleanup(func() { _ = plain.Close() })
			keys := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("\xffcontent")}
			value, record := make([]byte, size), make([]byte, 60)
			update := func(store kv.Store) {
				err := store.Update(b.Context(), "acme/user-42", func(tx kv.Tx) error {
					if _, err := tx.Get(keys...); err != nil {
						return err
					}
					for _, key := range keys[:4] {
						if err := tx.Put(key, record); err != nil {
							return err
						}
					}
					return tx.Put(keys[4], value)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			view := func(store kv.Store) {
				err := store.View(b.Context(), "acme/user-42", func(r kv.Reader) error { _, err := r.Get(keys...); return err })
				if err != nil {
					b.Fatal(err)
				}
			}
			for name, do := range map[string]func(kv.Store){"update": update, "view": view} {
				b.Run(fmt.Sprintf("%s/%s/%dKiB", engine, name, size>>10), func(b *testing.B) {
					update(plain)
					update(sealed)
					var took [2]time.Duration
					for b.Loop() {
						for i, store := range []kv.Store{plain, sealed} {
							began := time.Now()
							do(store)
							took[i] += time.Since(began)
						}
					}
					b.ReportMetric(0, "ns/op") // That of both says nothing.
					b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "plain-ns")
					b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N), "sealed-ns")
					b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
				})
			}
		}
	}
}

func mustOpen(b *testing.B, dir string) kv.Store {
	b.Helper()
	store, err := boltkv.Open(b.Context(), boltkv.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	return store
}
