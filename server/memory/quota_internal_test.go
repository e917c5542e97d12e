package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

// scanCounter counts the scans of a store's snapshots, each of which may take its time.
type scanCounter struct {
	kv.Store
	mu    sync.Mutex
	scans int
	takes time.Duration
}

func (s *scanCounter) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	return s.Store.View(ctx, scope, func(r kv.Reader) error { return fn(countingReader{r, s}) })
}

type countingReader struct {
	kv.Reader
	counter *scanCounter
}

func (r countingReader) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	r.counter.mu.Lock()
	r.counter.scans++
	r.counter.mu.Unlock()
	time.Sleep(r.counter.takes)
	return r.Reader.Scan(opts, fn)
}

// full is a Memory with room for two files and with two, of which the larger has 5 bytes.
func full(t *testing.T) (*Memory, *scanCounter) {
	t.Helper()
	store := &scanCounter{Store: memkv.New()}
	t.Cleanup(func() { _ = store.Close() })
	m, err := New(store, Options{Defaults: Settings{MaxFiles: new(int64(2))}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"/memories/a": "12345", "/memories/b": "1"} {
		done(t, m, Create{Path: path, FileText: text})
	}
	return m, store
}

func done(t *testing.T, m *Memory, cmd Command) {
	t.Helper()
	if result, err := m.Do(t.Context(), "test", cmd, Call{}); err != nil || result.IsError() {
		t.Fatal(result, err)
	}
}

// wantRefused checks that a file is one too many, and which are said to be the largest.
func wantRefused(t *testing.T, m *Memory, largest string) {
	t.Helper()
	result, err := m.Do(t.Context(), "test", Create{Path: "/memories/c"}, Call{})
	if err != nil || result.Reason != ReasonFileQuota || !strings.HasSuffix(result.Content[0].Text, largest) {
		t.Errorf("got %v, %v; want a refusal that ends with %q", result, err, largest)
	}
}

// TestQuota_ScansOnce is refused again and again: the files are read once for each revision of the namespace.
func TestQuota_ScansOnce(t *testing.T) {
	m, store := full(t)
	want := func(scans int) {
		t.Helper()
		if store.scans != scans {
			t.Errorf("%d scans, want %d", store.scans, scans)
		}
	}
	for range 10 {
		wantRefused(t, m, "Largest: /memories/a (5B), /memories/b (1B)")
	}
	want(1)
	done(t, m, Put{Path: "/memories/b", Data: []byte("123456")})
	for range 10 {
		wantRefused(t, m, "Largest: /memories/b (6B), /memories/a (5B)")
	}
	want(2)
	if err := m.DeleteNamespace(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // up to a revision that there was before
		done(t, m, Create{Path: fmt.Sprintf("/memories/new%d", i)})
	}
	done(t, m, Put{Path: "/memories/new0"})
	wantRefused(t, m, "Largest: /memories/new0 (0B), /memories/new1 (0B)")
	want(3)
}

// TestQuota_ScansShared is refused many times at once: all wait for one who reads the files, or until their time is up.
func TestQuota_ScansShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := full(t)
		store.takes = time.Second
		var calls sync.WaitGroup
		for range 16 {
			calls.Go(func() { wantRefused(t, m, "Largest: /memories/a (5B), /memories/b (1B)") })
		}
		synctest.Wait() // One reads, and the others wait.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := m.largest(ctx, "test"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		calls.Wait()
		if store.scans != 1 {
			t.Errorf("%d scans, want 1", store.scans)
		}
	})
}
