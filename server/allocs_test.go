//go:build !race

// The race detector allocates too, so that these tests are not built with it: see `make allocs`.

package server_test

import (
	"testing"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// What a view of a file of 2 KB may allocate. What comes on top of these numbers is felt by every call: look for it
// with -memprofile and -memprofilerate=1 before they are raised.
const (
	mostOfService = 18 // in the server, more than a bare RPC
	mostOfMemory  = 4  // in Memory.Do, on a store of bbolt
	mostOfStore   = 1  // in View of a store of bbolt
)

// allocs returns how many allocations a call of fn makes in the whole process. It is the least of several runs: only
// what a call makes every time counts, and not a collection or a ping in between.
func allocs(t *testing.T, fn func() error) float64 {
	t.Helper()
	const runs, calls = 10, 200
	least := -1.0
	for range runs {
		n := testing.AllocsPerRun(calls, func() {
			if err := fn(); err != nil {
				t.Fatal(err)
			}
		})
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

func TestAllocs_Service(t *testing.T) {
	service := servertest.New(t, servertest.WithStore(openStore(t))).Client
	_, err := service.Create(t.Context(), &memoryv1.CreateRequest{Path: "/memories/f", FileText: benchmarkText})
	if err != nil {
		t.Fatal(err)
	}
	view := func(c *client.Client) float64 {
		return allocs(t, func() error {
			_, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories/f"})
			return err
		})
	}
	bare, whole := view(newEcho(t, viewed(t))), view(service)
	t.Logf("client and server together: %v allocations, %v with a bare server", whole, bare)
	if more := whole - bare; more > mostOfService {
		t.Errorf("a view makes %v allocations more than a bare RPC, want at most %d", more, mostOfService)
	}
}

func TestAllocs_Memory(t *testing.T) {
	m, err := memory.New(openStore(t), memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create := memory.Create{Path: "/memories/f", FileText: benchmarkText}
	if _, err := m.Do(t.Context(), "n", create, memory.Call{}); err != nil {
		t.Fatal(err)
	}
	var view memory.Command = memory.View{Path: "/memories/f"}
	got := allocs(t, func() error {
		_, err := m.Do(t.Context(), "n", view, memory.Call{})
		return err
	})
	t.Logf("%v allocations", got)
	if got > mostOfMemory {
		t.Errorf("got %v allocations, want at most %d", got, mostOfMemory)
	}
}

func TestAllocs_Store(t *testing.T) {
	store := openStore(t)
	keys := [][]byte{[]byte("a"), []byte("b"), append([]byte{kv.BulkPrefix}, "c"...)}
	err := store.Update(t.Context(), "n", func(tx kv.Tx) error {
		for _, key := range keys {
			if err := tx.Put(key, []byte("value")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	scan := kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}}
	visit := func(_, _ []byte) error { return nil }
	read := func(r kv.Reader) error {
		if _, err := r.Get(keys...); err != nil {
			return err
		}
		return r.Scan(scan, visit)
	}
	got := allocs(t, func() error { return store.View(t.Context(), "n", read) })
	t.Logf("%v allocations", got)
	if got > mostOfStore {
		t.Errorf("got %v allocations, want at most %d", got, mostOfStore)
	}
}
