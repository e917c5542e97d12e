package sealkv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// fill writes to so many scopes and to the reserved one.
func fill(t testing.TB, store kv.Store, scopes int) {
	t.Helper()
	for i := range scopes {
		mustPut(t, store, fmt.Sprintf("scope-%03d", i), "key", fmt.Sprint("value ", i))
	}
	mustPut(t, store, kv.ReservedScope, "cursor", "value")
}

func wantFilled(t testing.TB, store kv.Store, scopes int) {
	t.Helper()
	for i := range scopes {
		wantGet(t, store, fmt.Sprintf("scope-%03d", i), "key", fmt.Sprint("value ", i))
	}
	wantGet(t, store, kv.ReservedScope, "cursor", "value")
}

func wantUse(t testing.TB, below kv.Store, want map[uint32]int) {
	t.Helper()
	got, err := sealkv.KeyUse(t.Context(), below)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("how many scopes each key wraps (-want +got):\n%s", diff)
	}
}

func mustSet(t testing.TB, store *sealkv.Store, handle *keyset.Handle) {
	t.Helper()
	if err := store.SetKeyset(t.Context(), handle); err != nil {
		t.Fatalf("SetKeyset: %v", err)
	}
}

func TestRewrap(t *testing.T) {
	const scopes = 30
	below, first := newMem(), newKeyset(t)
	store := openChecked(t, below, first)
	fill(t, store, scopes)
	if err := store.Rewrap(t.Context(), func(sealkv.Progress) { t.Error("there is nothing to do") }); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, first): scopes + 1})

	second := rotated(t, first)
	mustSet(t, store, second)
	mustPut(t, store, "new", "key", "value")
	// The reserved scope needs both: there is a seal check by each.
	wantUse(t, below, map[uint32]int{primary(t, first): scopes + 1, primary(t, second): 2})
	wantFilled(t, store, scopes)
	sealed := stored(t, below, "scope-000", "key")

	var reports []sealkv.Progress
	if err := store.Rewrap(t.Context(), func(p sealkv.Progress) { reports = append(reports, p) }); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, second): scopes + 2})
	for i, got := range reports {
		want := sealkv.Progress{Running: true, Done: i + 1, Total: scopes + 2}
		if i == len(reports)-1 {
			want = sealkv.Progress{Done: scopes + 2, Total: scopes + 2}
		}
		if got != want {
			t.Errorf("report %d: got %+v, want %+v", i, got, want)
		}
	}
	if got, want := len(reports), scopes+3; got != want {
		t.Errorf("got %d reports, want %d", got, want)
	}
	if got, want := store.Progress(), (sealkv.Progress{Done: scopes + 2, Total: scopes + 2}); got != want {
		t.Errorf("Progress: got %+v, want %+v", got, want)
	}
	// What was sealed stays, and what is written is sealed with something new.
	if diff := cmp.Diff(sealed, stored(t, below, "scope-000", "key")); diff != "" {
		t.Errorf("the value was sealed anew (-before +after):\n%s", diff)
	}
	mustPut(t, store, "scope-000", "later", "value")
	if later := stored(t, below, "scope-000", "later"); string(later[:5]) == string(sealed[:5]) {
		t.Error("what was written after Rewrap has the same key as what was before")
	}
	wantFilled(t, store, scopes)
	// The old key is not needed any more.
	reopened := open(t, below, without(t, second, primary(t, first)))
	wantFilled(t, reopened, scopes)
	wantGet(t, reopened, "scope-000", "later", "value")
	if err := reopened.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// An interruption anywhere loses nothing, and what was done is not done again.
func TestRewrap_Interrupted(t *testing.T) {
	const scopes = 5
	for name, failure := range map[string]error{"cancelled": context.Canceled, "busy": kv.ErrBusy, "full": kv.ErrFull} {
		for at := range int64(scopes + 3) { // One update for each scope and the reserved one, and two for the seal checks.
			t.Run(fmt.Sprint(name, " at ", at), func(t *testing.T) {
				first := newKeyset(t)
				second := rotated(t, first)
				below := &kvtest.Faulty{Store: newMem()}
				store := open(t, below, first)
				fill(t, store, scopes)
				mustSet(t, store, second)

				ctx, cancel := context.WithCancel(t.Context())
				var updates atomic.Int64
				below.BeforeUpdate = func(string) error {
					if updates.Add(1) == at+1 {
						cancel()
						return failure
					}
					return nil
				}
				if err := store.Rewrap(ctx, nil); !errors.Is(err, failure) {
					t.Errorf("got %v, want %v", err, failure)
				}
				if got, want := updates.Load(), at+1; got != want {
					t.Errorf("got %d updates, want %d", got, want)
				}
				if store.Progress().Running {
					t.Error("it is said to run")
				}
				wantFilled(t, store, scopes)
				// Until it has come to its end, no key may go.
				err := store.SetKeyset(t.Context(), without(t, second, primary(t, first)))
				if !errors.Is(err, sealkv.ErrWrongKeyset) {
					t.Errorf("keyset without the first key: got %v, want %v", err, sealkv.ErrWrongKeyset)
				}

				// Killed, and started again.
				updates.Store(0)
				below.BeforeUpdate = func(string) error { updates.Add(1); return nil }
				again := openChecked(t, below, second)
				wantFilled(t, again, scopes)
				if err := again.Rewrap(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if got, want := updates.Load(), scopes+3-at; got != want {
					t.Errorf("again: got %d updates, want %d", got, want)
				}
				wantUse(t, below, map[uint32]int{primary(t, second): scopes + 1})
				mustSet(t, again, without(t, second, primary(t, first)))
				wantFilled(t, again, scopes)
			})
		}
	}
}

// A data key that is damaged keeps the others from nothing, and is told again and again.
func TestRewrap_Damaged(t *testing.T) {
	below, first := newMem(), newKeyset(t)
	second := rotated(t, first)
	store := open(t, below, first)
	fill(t, store, 5)
	damaged := stored(t, below, "scope-002", keyName)
	damaged[40] ^= 1
	raw(t, below, "scope-002", keyName, damaged)
	mustSet(t, store, second)
	for range 2 {
		if err := store.Rewrap(t.Context(), nil); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("got %v, want %v", err, kv.ErrCorrupt)
		}
		// The old seal check stays too.
		wantUse(t, below, map[uint32]int{primary(t, first): 2, primary(t, second): 5})
		if got, want := store.Progress(), (sealkv.Progress{Done: 6, Total: 6, Failed: 1}); got != want {
			t.Errorf("Progress: got %+v, want %+v", got, want)
		}
	}
}

func TestSetKeyset_Refused(t *testing.T) {
	first := newKeyset(t)
	second := rotated(t, first)
	below := newMem()
	store := openChecked(t, below, second)
	fill(t, store, 3)
	for _, tt := range []struct {
		name   string
		keyset *keyset.Handle
		want   error
	}{
		{"none", nil, nil},
		{"another", newKeyset(t), sealkv.ErrWrongKeyset},
		{"as it was before the rotation", first, sealkv.ErrWrongKeyset},
		{"rotated from before the rotation", rotated(t, first), sealkv.ErrWrongKeyset},
		{"same id and another key", sameID(t, second), sealkv.ErrWrongKeyset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := store.SetKeyset(t.Context(), tt.keyset)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if store.Keyset() != second {
				t.Error("the keyset in force is another")
			}
			mustPut(t, store, "after/"+fmt.Sprint(len(tt.name)), "key", "value")
		})
	}
	wantFilled(t, store, 3)
}

// Two rotations, the second while the first is under way.
func TestRewrap_SetMeanwhile(t *testing.T) {
	const scopes = 6
	first := newKeyset(t)
	second := rotated(t, first)
	third := rotated(t, second)
	below := newMem()
	store := openChecked(t, below, first)
	fill(t, store, scopes)
	mustSet(t, store, second)
	set := sync.OnceFunc(func() { mustSet(t, store, third) })
	if err := store.Rewrap(t.Context(), func(p sealkv.Progress) {
		if p.Done == 3 {
			set()
		}
	}); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, third): scopes + 1})
	wantFilled(t, store, scopes)
}

// Whatever is written while the keyset is rotated, the old key can go afterwards.
func TestRewrap_AmongWrites(t *testing.T) {
	for name, below := range map[string]kv.Store{"memkv": newMem(), "boltkv": openBolt(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			first := newKeyset(t)
			second := rotated(t, first)
			store := openChecked(t, below, first)
			const writers, rounds = 4, 25
			began := make(chan struct{}, writers)
			var writing sync.WaitGroup
			for w := range writers {
				writing.Go(func() {
					for i := range rounds {
						scope := fmt.Sprintf("scope-%d-%d", w, i)
						mustPut(t, store, scope, "key", scope)
						mustPut(t, store, "shared", scope, scope)
						if i == 5 {
							began <- struct{}{}
						}
						if i%3 == 0 { // Its data key goes too.
							err := store.Update(t.Context(), scope, func(tx kv.Tx) error { return tx.Delete([]byte("key")) })
							if err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			<-began
			mustSet(t, store, second)
			if err := store.Rewrap(t.Context(), nil); err != nil {
				t.Error(err)
			}
			writing.Wait()
			use, err := sealkv.KeyUse(t.Context(), below)
			if err != nil || use[primary(t, first)] != 0 {
				t.Errorf("KeyUse: got %v, %v, want nothing for key %d", use, err, primary(t, first))
			}
			mustSet(t, store, without(t, second, primary(t, first)))
			for w := range writers {
				for i := range rounds {
					scope := fmt.Sprintf("scope-%d-%d", w, i)
					want := scope
					if i%3 == 0 {
						want = ""
					}
					wantGet(t, store, scope, "key", want)
					wantGet(t, store, "shared", scope, scope)
				}
			}
		})
	}
}

// An update that began under the old keyset may make a data key of it. What Rewrap sees comes after.
func TestSetKeyset_WaitsForUpdates(t *testing.T) {
	first := newKeyset(t)
	second := rotated(t, first)
	below := newMem()
	store := openChecked(t, below, first)
	running, release := make(chan struct{}), make(chan struct{})
	updated, set := make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- store.Update(t.Context(), "a", func(tx kv.Tx) error {
			close(running)
			<-release
			return tx.Put([]byte("key"), []byte("value"))
		})
	}()
	<-running
	go func() { set <- store.SetKeyset(t.Context(), second) }()
	select {
	case <-set:
		t.Error("SetKeyset returned while an update ran")
		set <- nil
	case <-time.After(50 * time.Millisecond): // Long enough for one that does not wait.
	}
	close(release)
	if err := errors.Join(<-updated, <-set, store.Rewrap(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, second): 2}) // One is the reserved scope, for its seal check.
}
