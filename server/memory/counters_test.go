package memory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// The tests of this file hold what commands ask of a store, in counters that do not depend on how busy the machine is.

// counters are what Views asked of a store.
type counters struct {
	trips    int // Gets and Scans, each of which may be a round trip
	keys     int // that were asked for, or visited by a scan
	contents int // of these, how many are of the contents of files
}

// countedViews is a store that counts.
type countedViews struct {
	kv.Store
	counters
}

func (c *countedViews) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	return c.Store.View(ctx, scope, func(r kv.Reader) error { return fn(countedReader{r, &c.counters}) })
}

type countedReader struct {
	kv.Reader
	counters *counters
}

func (r countedReader) Get(keys ...[]byte) ([][]byte, error) {
	r.counters.trips++
	for _, key := range keys {
		r.counters.count(key)
	}
	return r.Reader.Get(keys...)
}

func (r countedReader) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	r.counters.trips++
	return r.Reader.Scan(opts, func(key, value []byte) error {
		r.counters.count(key)
		return fn(key, value)
	})
}

func (c *counters) count(key []byte) {
	c.keys++
	if key[0] == kv.BulkPrefix {
		c.contents++
	}
}

// A listing reads the records that it shows, whatever there is below them, and no contents.
func TestCounters_List(t *testing.T) {
	store := &countedViews{Store: memkv.New()}
	defer store.Close()
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(namespace, dir string, files int) {
		t.Helper()
		var creates []memory.BatchCommand
		for i := range files {
			create := memory.Create{Path: fmt.Sprintf("%s/%d", dir, i), FileText: "text"}
			creates = append(creates, memory.BatchCommand{Command: create})
			if len(creates) < memory.MaxBatchCommands && i < files-1 {
				continue
			}
			if result, err := m.Batch(t.Context(), namespace, creates, ""); err != nil || result.FailedIndex >= 0 {
				t.Fatalf("fill: %v %v", result.Failed, err)
			}
			creates = creates[:0]
		}
	}
	fill("few", "/memories/d", 20)
	fill("many", "/memories/d", 2000)
	fill("deep", "/memories/d", 20)
	fill("deep", "/memories/d/e/f", 2000)

	const around = 3 // the namespace, /memories, and d
	for _, tt := range []struct {
		namespace string
		want      counters
	}{
		{"few", counters{trips: 3, keys: around + 20}},
		{"many", counters{trips: 3, keys: around + 2000}},
		{"deep", counters{trips: 3, keys: around + 20 + 1}}, // with e
	} {
		store.counters = counters{}
		result, err := m.Do(t.Context(), tt.namespace, memory.View{Path: memory.Root}, memory.Call{})
		if err != nil || result.IsError() {
			t.Fatalf("view: %v %v", result, err)
		}
		if diff := cmp.Diff(tt.want, store.counters, cmp.AllowUnexported(counters{})); diff != "" {
			t.Errorf("view of /memories with %s (-want +got)\n%s", tt.namespace, diff)
		}
	}
}

// A view of a file is two round trips: for the records, and for the contents.
func TestCounters_View(t *testing.T) {
	store := &countedViews{Store: memkv.New()}
	defer store.Close()
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Create{Path: "/memories/d/f", FileText: "text"})
	store.counters = counters{}
	must(t, m, memory.View{Path: "/memories/d/f"})
	want := counters{trips: 2, keys: 4 + 1, contents: 1}
	if diff := cmp.Diff(want, store.counters, cmp.AllowUnexported(counters{})); diff != "" {
		t.Errorf("view of a file (-want +got)\n%s", diff)
	}
}
