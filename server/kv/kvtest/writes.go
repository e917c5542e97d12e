package kvtest

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func testOwnWrites(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"kept", "old"}, pair{"changed", "old"})
	write(t, store, scope, pair{"deleted", "old"}, pair{"\xffdeleted", "old"})
	want := []pair{{"back", "again"}, {"changed", "new"}, {"kept", "old"}, {"new", "new"}, {"\xffnew", "new"}}
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		if err := errors.Join(
			putAll(tx, []pair{{"changed", "draft"}, {"changed", "new"}, {"new", "new"}, {"\xffnew", "new"}}),
			putAll(tx, []pair{{"back", "first"}, {"gone", "new"}}),
			tx.Delete([]byte("deleted")),
			tx.Delete([]byte("\xffdeleted")),
			tx.Delete([]byte("gone")),
			tx.Delete([]byte("back")),
			tx.Put([]byte("back"), []byte("again")),
		); err != nil {
			return err
		}
		got, err := tx.Get([]byte("changed"), []byte("kept"), []byte("deleted"), []byte("gone"), []byte("back"))
		if diff := cmp.Diff([][]byte{[]byte("new"), []byte("old"), nil, nil, []byte("again")}, got); diff != "" {
			t.Errorf("Get in the transaction: difference (-want +got):\n%s", diff)
		}
		pairs, scanErr := scan(tx, kv.ScanOptions{})
		if diff := cmp.Diff(want, pairs); diff != "" {
			t.Errorf("Scan in the transaction: difference (-want +got):\n%s", diff)
		}
		return errors.Join(err, scanErr)
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("afterwards: difference (-want +got):\n%s", diff)
	}
}

func testDeleteAbsent(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return errors.Join(tx.Delete([]byte("b")), tx.Delete([]byte("\xffb")), tx.Delete([]byte("b")))
	})
	if err != nil {
		t.Errorf("Update: got error %v, want none", err)
	}
	err = update(t.Context(), store, "never-written", func(tx kv.Tx) error { return tx.Delete([]byte("b")) })
	if err != nil {
		t.Errorf("Update of an empty scope: got error %v, want none", err)
	}
	if diff := cmp.Diff([]pair{{"a", "1"}}, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func testWritesAreCopied(t *testing.T, store kv.Store) {
	key, value, deleted := []byte("key"), []byte("value"), []byte("gone")
	write(t, store, scope, pair{"gone", "x"}, pair{"Xone", "x"})
	var kept [][]byte // what the transaction gave, to be changed by the store as it likes
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		copy(key, "key")
		copy(value, "value")
		copy(deleted, "gone")
		if err := errors.Join(tx.Put(key, value), tx.Delete(deleted)); err != nil {
			return err
		}
		key[0], value[0], deleted[0] = 'X', 'X', 'X'
		got, err := tx.Get([]byte("key"))
		kept = append(kept, got...)
		return err
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	key[1], value[1] = 'X', 'X'
	for range 100 { // Enough for the store to use memory or pages again.
		write(t, store, scope, pair{"other", "other"})
	}
	runtime.KeepAlive(kept)
	want := []pair{{"Xone", "x"}, {"key", "value"}, {"other", "other"}}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func testUpdateFails(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"}, pair{"\xffa", "1"})
	want := read(t, store, scope)
	boom := errors.New("boom")
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return errors.Join(
			putAll(tx, []pair{{"a", "2"}, {"b", "2"}, {"\xffb", "2"}}),
			tx.Delete([]byte("\xffa")),
			boom,
		)
	})
	if !errors.Is(err, boom) {
		t.Errorf("Update: got error %v, want %v", err, boom)
	}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	err = store.View(t.Context(), scope, func(kv.Reader) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("View: got error %v, want %v", err, boom)
	}
}

// testUpdateIgnoresError: a transaction that lacks a write is not committed, even where its function does not care.
func testUpdateIgnoresError(t *testing.T, store kv.Store) {
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		_ = tx.Put(make([]byte, kv.MaxKeyBytes+1), nil)
		return tx.Put([]byte("a"), []byte("1"))
	})
	if !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("Update: got error %v, want %v", err, kv.ErrTooLarge)
	}
	if got := read(t, store, scope); len(got) > 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func testUpdatePanics(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	type reason struct{ text string }
	want := &reason{"boom"}
	func() {
		defer func() {
			if got := recover(); got != any(want) {
				t.Errorf("Update: got panic %v, want the value of the function", got)
			}
		}()
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			if err := tx.Put([]byte("a"), []byte("2")); err != nil {
				return err
			}
			panic(want)
		})
		t.Errorf("Update: got error %v, want a panic", err)
	}()
	write(t, store, scope, pair{"b", "2"})
	if diff := cmp.Diff([]pair{{"a", "1"}, {"b", "2"}}, read(t, store, scope)); diff != "" {
		t.Errorf("afterwards: difference (-want +got):\n%s", diff)
	}
}

// testUpdateExits: a function may end its goroutine, as t.FailNow does. Where that is the caller's, Update never
// returns; where it is another, Update may return any error.
func testUpdateExits(t *testing.T, store kv.Store) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := store.Update(t.Context(), scope, func(tx kv.Tx) error {
			if err := tx.Put([]byte("a"), []byte("1")); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		if err == nil {
			t.Error("Update: got no error, want one or no return at all")
		}
	}()
	<-done
	write(t, store, scope, pair{"b", "2"})
	if diff := cmp.Diff([]pair{{"b", "2"}}, read(t, store, scope)); diff != "" {
		t.Errorf("afterwards: difference (-want +got):\n%s", diff)
	}
}

func testViewPanics(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	want := errors.New("boom")
	func() {
		defer func() {
			if got := recover(); got != any(want) {
				t.Errorf("View: got panic %v, want the value of the function", got)
			}
		}()
		err := store.View(t.Context(), scope, func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(_, _ []byte) error { panic(want) })
		})
		t.Errorf("View: got error %v, want a panic", err)
	}()
	write(t, store, scope, pair{"b", "2"})
	if diff := cmp.Diff([]pair{{"a", "1"}, {"b", "2"}}, read(t, store, scope)); diff != "" {
		t.Errorf("afterwards: difference (-want +got):\n%s", diff)
	}
}
