package kvtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// wantError reports where an error is not the one that is wanted.
func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// mustNotRun is the function of a transaction that cannot begin.
func mustNotRun[T any](t *testing.T) func(T) error {
	return func(T) error {
		t.Error("function of a transaction that cannot begin was called")
		return nil
	}
}

func testInvalidUse(t *testing.T, store kv.Store) {
	for _, name := range []string{"", "a\x00b", "\x00", strings.Repeat("s", kv.MaxScopeBytes+1)} {
		wantError(t, "View of a bad scope", store.View(t.Context(), name, mustNotRun[kv.Reader](t)), kv.ErrInvalid)
		wantError(t, "Update of a bad scope", store.Update(t.Context(), name, mustNotRun[kv.Tx](t)), kv.ErrInvalid)
	}
	for _, limit := range []int{0, -1} {
		_, err := store.Scopes(t.Context(), "", limit)
		wantError(t, "Scopes without a limit", err, kv.ErrInvalid)
	}
	for name, read := range map[string]func(r kv.Reader) error{
		"Get of an empty key":   func(r kv.Reader) error { _, err := r.Get([]byte("a"), nil); return err },
		"Scan with limit of -1": func(r kv.Reader) error { _, err := scan(r, kv.ScanOptions{Limit: -1}); return err },
	} {
		wantError(t, "View: "+name, store.View(t.Context(), scope, read), kv.ErrInvalid)
		err := update(t.Context(), store, scope, func(tx kv.Tx) error { return read(tx) })
		wantError(t, "Update: "+name, err, kv.ErrInvalid)
	}
	for name, write := range map[string]func(tx kv.Tx) error{
		"Put of no key":       func(tx kv.Tx) error { return tx.Put(nil, []byte("x")) },
		"Put of an empty key": func(tx kv.Tx) error { return tx.Put([]byte{}, []byte("x")) },
		"Delete of no key":    func(tx kv.Tx) error { return tx.Delete(nil) },
	} {
		wantError(t, name, update(t.Context(), store, scope, write), kv.ErrInvalid)
	}
}

func testUseAfterEnd(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	var reader kv.Reader
	var tx kv.Tx
	err := errors.Join(
		store.View(t.Context(), scope, func(r kv.Reader) error { reader = r; return nil }),
		update(t.Context(), store, scope, func(x kv.Tx) error { tx = x; return x.Put([]byte("b"), nil) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]kv.Reader{"View": reader, "Update": tx} {
		_, err := r.Get([]byte("a"))
		wantError(t, "Get after the end of "+name, err, kv.ErrInvalid)
		_, err = scan(r, kv.ScanOptions{})
		wantError(t, "Scan after the end of "+name, err, kv.ErrInvalid)
	}
	wantError(t, "Put after the end", tx.Put([]byte("c"), nil), kv.ErrInvalid)
	wantError(t, "Delete after the end", tx.Delete([]byte("a")), kv.ErrInvalid)
}

func testUseWithinScan(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"}, pair{"b", "1"})
	check := func(r kv.Reader) error {
		err := r.Scan(kv.ScanOptions{}, func(key, _ []byte) error { _, err := r.Get(key); return err })
		wantError(t, "Get within a Scan", err, kv.ErrInvalid)
		_, err = r.Get([]byte("a")) // The end of the Scan is the end of that.
		return err
	}
	if err := store.View(t.Context(), scope, check); err != nil {
		t.Errorf("View: %v", err)
	}
	if err := update(t.Context(), store, scope, func(tx kv.Tx) error { return check(tx) }); err != nil {
		t.Errorf("Update: %v", err)
	}
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return tx.Scan(kv.ScanOptions{}, func(key, _ []byte) error { return tx.Delete(key) })
	})
	wantError(t, "Delete within a Scan", err, kv.ErrInvalid)
}

func testContextDone(t *testing.T, store kv.Store) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "View", store.View(cancelled, scope, mustNotRun[kv.Reader](t)), context.Canceled)
	wantError(t, "Update", store.Update(cancelled, scope, mustNotRun[kv.Tx](t)), context.Canceled)
	_, err := store.Scopes(cancelled, "", 1)
	wantError(t, "Scopes", err, context.Canceled)

	// A context that ends while the function runs is the function's to notice; the outcome is told as it is.
	ctx, cancel := context.WithCancel(t.Context())
	err = store.Update(ctx, scope, func(tx kv.Tx) error {
		cancel()
		return tx.Put([]byte("a"), []byte("1"))
	})
	want := []pair{{"a", "1"}}
	if err != nil { // An engine whose driver gives up says so, and then nothing is there.
		wantError(t, "Update whose context ends", err, context.Canceled)
		want = nil
	}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("after Update gave %v: difference (-want +got):\n%s", err, diff)
	}
}

func testContextDoneWhileWaiting(t *testing.T, store kv.Store) {
	running, release := make(chan struct{}), make(chan struct{})
	run := sync.OnceFunc(func() { close(running) })
	first := make(chan error, 1)
	go func() {
		first <- update(t.Context(), store, scope, func(tx kv.Tx) error {
			run()
			<-release
			return tx.Put([]byte("a"), []byte("1"))
		})
	}()
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { second <- store.Update(ctx, scope, mustNotRun[kv.Tx](t)) }()
	cancel()
	close(release)
	wantError(t, "Update that waits", <-second, context.Canceled)
	if err := <-first; err != nil {
		t.Errorf("Update that it waits for: %v", err)
	}
	if diff := cmp.Diff([]pair{{"a", "1"}}, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func testClosed(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	if err := store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	wantError(t, "View", store.View(t.Context(), scope, mustNotRun[kv.Reader](t)), kv.ErrClosed)
	wantError(t, "Update", store.Update(t.Context(), scope, mustNotRun[kv.Tx](t)), kv.ErrClosed)
	_, err := store.Scopes(t.Context(), "", 1)
	wantError(t, "Scopes", err, kv.ErrClosed)
	wantError(t, "Close", store.Close(), kv.ErrClosed)
	if checker, ok := kv.As[kv.Checker](store); ok {
		wantError(t, "Check", checker.Check(t.Context()), kv.ErrClosed)
	}
}

func testCloseWaits(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"})
	viewing, updating, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	results := make(chan error, 2)
	go func() {
		began := sync.OnceFunc(func() { close(viewing) })
		results <- store.View(t.Context(), scope, func(r kv.Reader) error {
			began()
			<-release
			_, err := scan(r, kv.ScanOptions{})
			return err
		})
	}()
	go func() {
		began := sync.OnceFunc(func() { close(updating) })
		results <- store.Update(t.Context(), scope, func(tx kv.Tx) error {
			began()
			<-release
			return tx.Put([]byte("b"), []byte("2"))
		})
	}()
	<-viewing
	<-updating
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close returned %v while transactions ran", err)
		closed <- err
	default:
	}
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Errorf("transaction that ran when the store was closed: got error %v, want none", err)
		}
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}
