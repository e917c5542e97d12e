package kvtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// neighbours are names of scopes, in byte order, that are prefixes of each other or next to each other in a file.
var neighbours = []string{
	"\x01", "a", "a\x01", "a-", "a.b", "a/b", "a/b/c", "aa", "a\xff", "b", "~stor", "~store.", "~stores", "\xff",
}

// scopes returns all that Scopes gives, in pages of a size.
func scopes(t *testing.T, store kv.Store, size int) []string {
	t.Helper()
	var all []string
	for after := ""; ; after = all[len(all)-1] {
		page, err := store.Scopes(t.Context(), after, size)
		if err != nil {
			t.Fatalf("Scopes after %q: %v", after, err)
		}
		if len(page) > size {
			t.Fatalf("Scopes after %q: got %d, want at most %d", after, len(page), size)
		}
		all = append(all, page...)
		if len(page) < size {
			return all
		}
	}
}

func testScopesAreApart(t *testing.T, store kv.Store) {
	keys := []string{"\x00", "\x01", "a", "b\x00a", "\xff", "\xff\xff"}
	pairs := func(scope string) []pair {
		var pairs []pair
		for _, key := range keys {
			pairs = append(pairs, pair{key, scope + " " + key})
		}
		return pairs
	}
	for _, scope := range neighbours {
		write(t, store, scope, pairs(scope)...)
	}
	for _, scope := range neighbours {
		if diff := cmp.Diff(pairs(scope), read(t, store, scope)); diff != "" {
			t.Errorf("scope %q: difference (-want +got):\n%s", scope, diff)
		}
	}
	err := update(t.Context(), store, "a", func(tx kv.Tx) error {
		for _, key := range keys {
			if err := tx.Delete([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	for _, scope := range neighbours {
		want := pairs(scope)
		if scope == "a" {
			want = nil
		}
		if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
			t.Errorf("scope %q without those of scope %q: difference (-want +got):\n%s", scope, "a", diff)
		}
	}
}

func testScopesInPages(t *testing.T, store kv.Store) {
	if got := scopes(t, store, 10); len(got) > 0 {
		t.Errorf("empty store: got %q, want none", got)
	}
	for i, scope := range neighbours {
		key := "a"
		if i%2 == 0 { // A scope counts where it has contents only.
			key = "\xffa"
		}
		write(t, store, scope, pair{key, "1"}, pair{key + "\x01", "1"})
	}
	for _, size := range []int{1, 2, 5, len(neighbours), 1000} {
		if diff := cmp.Diff(neighbours, scopes(t, store, size)); diff != "" {
			t.Errorf("pages of %d: difference (-want +got):\n%s", size, diff)
		}
	}
	// Any text may be given, it need not be the name of a scope.
	for _, after := range append([]string{"", "\x00", "a\x00", "a\x00\xff", "a/", "zz", "\xff\xff"}, neighbours...) {
		var want []string
		for _, scope := range neighbours {
			if scope > after {
				want = append(want, scope)
			}
		}
		got, err := store.Scopes(t.Context(), after, 1000)
		if err != nil {
			t.Errorf("Scopes after %q: %v", after, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Scopes after %q: got %q, want %q", after, got, want)
		}
	}
}

func testScopesComeAndGo(t *testing.T, store kv.Store) {
	if got := read(t, store, "only-viewed"); len(got) > 0 {
		t.Errorf("scope never written: got %v, want nothing", got)
	}
	err := update(t.Context(), store, "only-deleted", func(tx kv.Tx) error { return tx.Delete([]byte("a")) })
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	if got := scopes(t, store, 10); len(got) > 0 {
		t.Errorf("before a write: got %q, want none", got)
	}
	for i := range 3 {
		write(t, store, fmt.Sprintf("scope-%d", i), pair{"a", "1"}, pair{"\xffa", "1"})
	}
	err = update(t.Context(), store, "scope-1", func(tx kv.Tx) error {
		if err := tx.Delete([]byte("\xffa")); err != nil {
			return err
		}
		return tx.Delete([]byte("a"))
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	if got, want := scopes(t, store, 10), []string{"scope-0", "scope-2"}; !slices.Equal(got, want) {
		t.Errorf("after a scope lost its keys: got %q, want %q", got, want)
	}
}

func testReservedScope(t *testing.T, store kv.Store) {
	write(t, store, kv.ReservedScope, pair{"cursor", "1"}, pair{"\xffcursor", "2"})
	write(t, store, "z", pair{"a", "1"})
	write(t, store, "~store2", pair{"a", "1"})
	for size := 1; size <= 3; size++ {
		if got, want := scopes(t, store, size), []string{"z", "~store2"}; !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %q, want %q", size, got, want)
		}
	}
	// The engine may have keys of its own there.
	var got []pair
	for _, p := range read(t, store, kv.ReservedScope) {
		if strings.HasSuffix(p.Key, "cursor") {
			got = append(got, p)
		}
	}
	if diff := cmp.Diff([]pair{{"cursor", "1"}, {"\xffcursor", "2"}}, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}
