package sealkv_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// killed fails every update from the nth on, counted from zero. Where the answer of that got lost, it was committed.
func killed(below kv.Store, n int64, committed bool) *kvtest.Faulty {
	var updates atomic.Int64
	faulty := &kvtest.Faulty{Store: below}
	faulty.BeforeUpdate = func(string) error {
		if at := updates.Add(1) - 1; at > n || at == n && !committed {
			return kv.ErrClosed
		}
		return nil
	}
	faulty.AfterUpdate = func(string) error {
		if updates.Load() > n {
			return kv.ErrUnknown
		}
		return nil
	}
	return faulty
}

// wantOpens checks that Open and CheckKeyset say the same of a keyset.
func wantOpens(t *testing.T, below kv.Store, handle *keyset.Handle, want error) {
	t.Helper()
	before := dump(t, below)
	_, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: handle})
	if !errors.Is(err, want) {
		t.Errorf("Open: got %v, want %v", err, want)
	}
	if err := sealkv.CheckKeyset(t.Context(), below, handle); !errors.Is(err, want) {
		t.Errorf("CheckKeyset: got %v, want %v", err, want)
	}
	if diff := cmp.Diff(before, dump(t, below)); diff != "" {
		t.Errorf("the store has changed (-before +after):\n%s", diff)
	}
}

// Wherever a rotation is killed, the keyset of it opens the store; that of before does as long as it can read and write
// everything, and is refused from then on.
func TestRotation_KilledAnywhere(t *testing.T) {
	const scopes = 3
	rotate := func(below kv.Store, second *keyset.Handle) error {
		store, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: second})
		if err != nil {
			return err
		}
		err = store.Update(t.Context(), "new", func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) })
		if err != nil {
			return err
		}
		return store.Rewrap(t.Context(), nil)
	}
	// Updates: a seal check, the new scope, each scope and the reserved one, and the seal check in the end.
	const updates = 1 + 1 + scopes + 1 + 1
	for _, committed := range []bool{false, true} {
		for at := range int64(updates + 1) {
			t.Run(fmt.Sprint("at ", at, ", committed ", committed), func(t *testing.T) {
				first := newKeyset(t)
				second := rotated(t, first)
				below := newMem()
				fill(t, open(t, below, first), scopes)
				if err := rotate(killed(below, at, committed), second); (err == nil) != (at == updates) {
					t.Fatalf("got %v, want it to end by itself after %d updates", err, updates)
				}

				begun := at > 0 || committed
				if begun {
					wantOpens(t, below, first, sealkv.ErrWrongKeyset)
				} else {
					wantOpens(t, below, first, nil)
					wantFilled(t, open(t, below, first), scopes)
				}
				wantOpens(t, below, second, nil)
				wantFilled(t, open(t, below, second), scopes)
				// Another rotation, of a keyset that knows nothing of the second key, is none.
				if begun {
					wantOpens(t, below, rotated(t, first), sealkv.ErrWrongKeyset)
				}

				if err := rotate(below, second); err != nil {
					t.Fatal(err)
				}
				alone := without(t, second, primary(t, first))
				wantOpens(t, below, alone, nil)
				wantFilled(t, open(t, below, alone), scopes)
				wantOneCheck(t, below)
			})
		}
	}
}

// wantOneCheck checks that nothing is left of a rotation.
func wantOneCheck(t *testing.T, below kv.Store) {
	t.Helper()
	var got []string
	for name := range dump(t, below) {
		if strings.HasPrefix(name, kv.ReservedScope+" sealkv.") {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{kv.ReservedScope + " sealkv.check"}, got); diff != "" {
		t.Errorf("seal checks (-want +got):\n%s", diff)
	}
}

// Two rotations are interrupted, and a third goes back to the first key: what each has wrapped is not lost.
func TestRotation_Interrupted(t *testing.T) {
	const scopes = 6
	first := newKeyset(t)
	second := rotated(t, first)
	third := rotated(t, second)
	below := newMem()
	fill(t, open(t, below, first), scopes)
	for _, handle := range []*keyset.Handle{second, third} {
		err := open(t, killed(below, 3, false), handle).Rewrap(t.Context(), nil)
		if !errors.Is(err, kv.ErrClosed) {
			t.Fatalf("got %v, want %v", err, kv.ErrClosed)
		}
	}
	for name, handle := range map[string]*keyset.Handle{
		"first": first, "second": second,
		"without the second": without(t, third, primary(t, second)),
	} {
		t.Run(name, func(t *testing.T) { wantOpens(t, below, handle, sealkv.ErrWrongKeyset) })
	}
	manager := keyset.NewManagerFromHandle(third)
	if err := manager.SetPrimary(primary(t, first)); err != nil {
		t.Fatal(err)
	}
	back := mustHandle(t, manager)
	store := openChecked(t, below, back)
	wantFilled(t, store, scopes)
	if err := store.SetKeyset(t.Context(), first); !errors.Is(err, sealkv.ErrWrongKeyset) {
		t.Errorf("SetKeyset before Rewrap: got %v, want %v", err, sealkv.ErrWrongKeyset)
	}
	if err := store.Rewrap(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, first): scopes + 1})
	wantOneCheck(t, below)
	mustSet(t, store, first)
	wantFilled(t, store, scopes)
}

// Nothing is wrapped by a key where the seal check by it cannot be written.
func TestUpdate_CheckFails(t *testing.T) {
	first := newKeyset(t)
	below := &kvtest.Faulty{Store: newMem()}
	store := openChecked(t, below, first)
	fill(t, store, 1)
	mustSet(t, store, rotated(t, first))
	below.BeforeUpdate = kvtest.OnCall(1, kv.ErrFull)
	put := func() error {
		return store.Update(t.Context(), "new", func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) })
	}
	if err := put(); !errors.Is(err, kv.ErrFull) {
		t.Errorf("got %v, want %v", err, kv.ErrFull)
	}
	wantOpens(t, below.Store, first, nil)
	if err := put(); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	wantOpens(t, below.Store, first, sealkv.ErrWrongKeyset)
}

// Rewrap that begins while the keyset is being set sees what updates under the one before write.
func TestRewrap_WaitsForSetKeyset(t *testing.T) {
	first := newKeyset(t)
	second := rotated(t, first)
	below := &kvtest.Faulty{Store: newMem()}
	store := openChecked(t, below, first)
	running, release := make(chan struct{}), make(chan struct{})
	below.BeforeUpdate = func(scope string) error {
		if scope == "a" {
			select {
			case <-release: // Rewrap comes later.
			default:
				close(running)
				<-release
			}
		}
		return nil
	}
	updated, set, rewrapped := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- store.Update(t.Context(), "a", func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) })
	}()
	<-running
	go func() { set <- store.SetKeyset(t.Context(), second) }()
	for store.Keyset() != second {
		runtime.Gosched()
	}
	go func() { rewrapped <- store.Rewrap(t.Context(), nil) }()
	select {
	case <-rewrapped:
		t.Error("Rewrap came to its end while an update ran under the keyset before")
		rewrapped <- nil
	case <-time.After(50 * time.Millisecond): // Long enough for one that does not wait.
	}
	close(release)
	if err := errors.Join(<-updated, <-set, <-rewrapped); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, second): 2}) // One is the reserved scope, for its seal check.
}

// A key is needed by a store that holds nothing, too: its seal check is by that.
func TestKeyUse_OfSealChecks(t *testing.T) {
	first := newKeyset(t)
	second := rotated(t, first)
	below := newMem()
	store := open(t, below, first)
	wantUse(t, below, map[uint32]int{primary(t, first): 1})
	mustSet(t, store, second)
	mustPut(t, store, "a", "key", "value")
	wantUse(t, below, map[uint32]int{primary(t, first): 1, primary(t, second): 2})
	if err := store.Rewrap(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantUse(t, below, map[uint32]int{primary(t, second): 2})
}
