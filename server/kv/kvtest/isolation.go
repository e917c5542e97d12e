package kvtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func testSnapshotStays(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"}, pair{"b", "1"}, pair{"\xffa", "1"})
	want := read(t, store, scope)

	began, changed := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		begin := sync.OnceFunc(func() { close(began) })
		result <- store.View(t.Context(), scope, func(r kv.Reader) error {
			values, err := r.Get([]byte("a"))
			if err != nil {
				return err
			}
			begin()
			<-changed
			got, err := scan(r, kv.ScanOptions{})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Scan after an update: difference (-want +got):\n%s", diff)
			}
			if string(values[0]) != "1" {
				t.Errorf("value after an update: got %q, want %q", values[0], "1")
			}
			return err
		})
	}()
	<-began
	for i := range 50 {
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			value := []byte(strconv.Itoa(i))
			return errors.Join(
				tx.Put([]byte("a"), value), tx.Put([]byte("aa"), value), tx.Put([]byte("\xffa"), value),
				tx.Delete([]byte("b")),
			)
		})
		if err != nil {
			t.Errorf("Update beside a View: %v", err)
		}
	}
	close(changed)
	if err := <-result; err != nil {
		t.Errorf("View: %v", err)
	}
	if diff := cmp.Diff([]pair{{"a", "49"}, {"aa", "49"}, {"\xffa", "49"}}, read(t, store, scope)); diff != "" {
		t.Errorf("next View: difference (-want +got):\n%s", diff)
	}
}

// testAcknowledgedIsSeen has readers look, while one writes: what was acknowledged before they began they see.
func testAcknowledgedIsSeen(t *testing.T, store kv.Store) {
	const updates, readers = 300, 4
	write(t, store, scope, pair{"n", "0"})
	var acknowledged atomic.Int64
	var ended atomic.Bool
	var reading sync.WaitGroup
	defer reading.Wait()
	defer ended.Store(true)
	for range readers {
		reading.Go(func() {
			for !ended.Load() {
				least := acknowledged.Load()
				var seen int
				err := store.View(t.Context(), scope, func(r kv.Reader) error {
					values, err := r.Get([]byte("n"))
					if err != nil {
						return err
					}
					seen, err = strconv.Atoi(string(values[0]))
					return err
				})
				if err != nil || int64(seen) < least {
					t.Errorf("got %d and %v, want the value %d or a later one", seen, err, least)
					return
				}
			}
		})
	}
	for n := range updates {
		write(t, store, scope, pair{"n", strconv.Itoa(n + 1)})
		acknowledged.Store(int64(n + 1))
	}
}

// testFailuresAmongOthers makes many updates wait behind one, so that an engine that commits in groups does so, and
// lets a half of them fail.
func testFailuresAmongOthers(t *testing.T, store kv.Store) {
	const updates = 60
	running, release := make(chan struct{}), make(chan struct{})
	run := sync.OnceFunc(func() { close(running) })
	var wg sync.WaitGroup
	wg.Go(func() {
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			run()
			<-release
			return tx.Put([]byte("first"), []byte("x"))
		})
		if err != nil {
			t.Errorf("first update: %v", err)
		}
	})
	<-running

	boom := errors.New("boom")
	want := []pair{{"first", "x"}}
	for i := range updates {
		key := fmt.Sprintf("key %02d", i)
		if i%4 < 2 {
			want = append(want[:len(want):len(want)], pair{key, "x"})
		}
		wg.Go(func() {
			defer func() {
				if got := recover(); (got == any(boom)) != (i%4 == 3) {
					t.Errorf("update %d: got panic %v", i, got)
				}
			}()
			err := update(t.Context(), store, scope, func(tx kv.Tx) error {
				if err := tx.Put([]byte(key), []byte("x")); err != nil {
					return err
				}
				switch i % 4 {
				case 2:
					return boom
				case 3:
					panic(boom)
				}
				return nil
			})
			if errors.Is(err, boom) != (i%4 == 2) || err != nil && i%4 != 2 {
				t.Errorf("update %d: got error %v", i, err)
			}
		})
	}
	close(release)
	wg.Wait()
	// In byte order "first" comes before "key".
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

// increment adds one to the number that a key holds.
func increment(ctx context.Context, store kv.Store, scope, key string) error {
	return update(ctx, store, scope, func(tx kv.Tx) error {
		values, err := tx.Get([]byte(key))
		if err != nil {
			return err
		}
		n := 0
		if values[0] != nil {
			if n, err = strconv.Atoi(string(values[0])); err != nil {
				return err
			}
		}
		return tx.Put([]byte(key), []byte(strconv.Itoa(n+1)))
	})
}

func testCounterOfOneScope(t *testing.T, store kv.Store) {
	const callers, rounds = 16, 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if err := increment(t.Context(), store, scope, "counter"); err != nil {
					t.Errorf("increment: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]pair{{"counter", strconv.Itoa(callers * rounds)}}, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func testCountersOfManyScopes(t *testing.T, store kv.Store) {
	const scopes, callers, rounds = 8, 3, 10
	var wg sync.WaitGroup
	for i := range scopes * callers {
		wg.Go(func() {
			for range rounds {
				if err := increment(t.Context(), store, fmt.Sprintf("scope-%d", i%scopes), "counter"); err != nil {
					t.Errorf("increment: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for i := range scopes {
		got := read(t, store, fmt.Sprintf("scope-%d", i))
		if diff := cmp.Diff([]pair{{"counter", strconv.Itoa(callers * rounds)}}, got); diff != "" {
			t.Errorf("scope %d: difference (-want +got):\n%s", i, diff)
		}
	}
}

// testViewsAreConsistent: two keys that are always written together are always read alike.
func testViewsAreConsistent(t *testing.T, store kv.Store) {
	keys := [][]byte{[]byte("a"), []byte("\xffz")}
	set := func(i int) error {
		return update(t.Context(), store, scope, func(tx kv.Tx) error {
			value := []byte(strconv.Itoa(i))
			return errors.Join(tx.Put(keys[0], value), tx.Put(keys[1], value))
		})
	}
	if err := set(0); err != nil {
		t.Fatalf("Update: %v", err)
	}
	written := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(written)
		for i := range 100 {
			if err := set(i); err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for {
				err := store.View(t.Context(), scope, func(r kv.Reader) error {
					first, err := r.Get(keys[0])
					if err != nil {
						return err
					}
					second, err := r.Get(keys[1])
					if err == nil && string(first[0]) != string(second[0]) {
						t.Errorf("got %q and %q, want the same", first[0], second[0])
					}
					return err
				})
				if err != nil {
					t.Errorf("View: %v", err)
				}
				select {
				case <-written:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
}
