package kvtest_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The harsh store keeps to the contract.
func TestHarsh_Conformance(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Store { return kvtest.Harsh(memkv.New()) })
}

// A faulty store without faults keeps to the contract.
func TestFaulty_Conformance(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Store { return &kvtest.Faulty{Store: memkv.New()} })
}

func put(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) }

// get returns the value of the key that put writes.
func get(t *testing.T, store kv.Store) (value string) {
	t.Helper()
	err := store.View(t.Context(), "scope", func(r kv.Reader) error {
		values, err := r.Get([]byte("key"))
		value = string(values[0])
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return value
}

func TestHarsh(t *testing.T) {
	store := kvtest.Harsh(memkv.New())
	kvtest.Check(t, store)
	runs := 0
	err := store.Update(t.Context(), "scope", func(tx kv.Tx) error {
		runs++
		return put(tx)
	})
	if err != nil || runs != 2 {
		t.Errorf("Update: got %d runs and error %v, want 2 and none", runs, err)
	}
	var kept []byte
	err = store.View(t.Context(), "scope", func(r kv.Reader) error {
		values, err := r.Get([]byte("key"))
		kept = values[0]
		return err
	})
	if got, want := string(kept), "!!!!!"; err != nil || got != want {
		t.Errorf("value after the transaction: got %q and error %v, want %q", got, err, want)
	}
	if got, want := get(t, store), "value"; got != want {
		t.Errorf("value in the store: got %q, want %q", got, want)
	}
}

func TestFaulty(t *testing.T) {
	inner := memkv.New()
	kvtest.Check(t, inner)

	t.Run("BeforeUpdate", func(t *testing.T) {
		store := &kvtest.Faulty{Store: inner, BeforeUpdate: kvtest.OnCall(2, kv.ErrBusy)}
		for i, want := range []error{nil, kv.ErrBusy, nil} {
			if err := store.Update(t.Context(), "scope", func(kv.Tx) error { return nil }); !errors.Is(err, want) {
				t.Errorf("call %d: got error %v, want %v", i+1, err, want)
			}
		}
		store.BeforeUpdate = kvtest.OnCall(1, kv.ErrFull)
		if err := store.Update(t.Context(), "scope", put); !errors.Is(err, kv.ErrFull) {
			t.Errorf("got error %v, want %v", err, kv.ErrFull)
		}
		if got := get(t, inner); got != "" {
			t.Errorf("got value %q, want none", got)
		}
	})
	t.Run("AfterUpdate", func(t *testing.T) {
		store := &kvtest.Faulty{Store: inner, AfterUpdate: kvtest.OnCall(1, kv.ErrUnknown)}
		if err := store.Update(t.Context(), "scope", put); !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("got error %v, want %v", err, kv.ErrUnknown)
		}
		if got, want := get(t, inner), "value"; got != want {
			t.Errorf("got value %q, want %q", got, want)
		}
	})
	t.Run("reads", func(t *testing.T) {
		store := &kvtest.Faulty{
			Store:        inner,
			BeforeView:   kvtest.OnCall(1, kv.ErrCorrupt),
			BeforeScopes: func() error { return kv.ErrBusy },
		}
		err := store.View(t.Context(), "scope", func(kv.Reader) error { return nil })
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("View: got error %v, want %v", err, kv.ErrCorrupt)
		}
		if _, err := store.Scopes(t.Context(), "", 1); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("Scopes: got error %v, want %v", err, kv.ErrBusy)
		}
	})
}
