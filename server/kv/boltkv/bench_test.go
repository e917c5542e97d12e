package boltkv

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
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

// BenchmarkView measures a View that gets one key.
func BenchmarkView(b *testing.B) {
	store := openTest(b, Options{Dir: b.TempDir()})
	mustPut(b, store, "scope", "key", "value")
	key := []byte("key")
	for b.Loop() {
		err := store.View(b.Context(), "scope", func(r kv.Reader) error {
			_, err := r.Get(key)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkFill fills a store with so many MB of contents of 2 KB, with a record for each.
func benchmarkFill(b *testing.B, store *Store, megabytes int) {
	b.Helper()
	record, contents := []byte(strings.Repeat("r", 100)), []byte(strings.Repeat("c", 1900))
	const each = 5000 // 10 MB
	for group := range megabytes / 10 {
		err := store.Update(b.Context(), "scope", func(tx kv.Tx) error {
			for i := range each {
				key := fmt.Appendf(nil, "%010d", group*each+i)
				if err := tx.Put(key, record); err != nil {
					return err
				}
				if err := tx.Put(append([]byte{kv.BulkPrefix}, key...), contents); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a store after a clean stop, and after a crash, when the free pages have to be found.
func BenchmarkOpen(b *testing.B) {
	const megabytes = 1000
	clean := b.TempDir()
	store, err := Open(b.Context(), Options{Dir: clean})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkFill(b, store, megabytes)
	// A copy of a store in use is what a crash leaves.
	crashed := b.TempDir()
	for _, name := range []string{fileName, lockName} {
		if err := copyFile(filepath.Join(clean, name), filepath.Join(crashed, name)); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("clean", func(b *testing.B) { benchmarkOpen(b, clean, (*Store).Close) })
	b.Run("crashed", func(b *testing.B) {
		// As a crash would leave it again: with LOCK, and without a list of free pages.
		benchmarkOpen(b, crashed, func(store *Store) error { return store.db.Close() })
	})
}

// benchmarkOpen opens the store of a directory. Closing it is not measured.
func benchmarkOpen(b *testing.B, dir string, closeStore func(*Store) error) {
	for b.Loop() {
		store, err := Open(b.Context(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		store.queue.close()
		if err := closeStore(store); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// BenchmarkBackup makes a backup of a store of 100 MB, without reading it.
func BenchmarkBackup(b *testing.B) {
	store := openTest(b, Options{Dir: b.TempDir()})
	benchmarkFill(b, store, 100)
	for b.Loop() {
		backup, err := store.Backup(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(backup.Size())
		if err := backup.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
