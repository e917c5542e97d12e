package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestValidateNamespace(t *testing.T) {
	for _, name := range []string{"a", "0", "default", "acme/support/user-42", "a.b_c-d", strings.Repeat("x", 200)} {
		if err := memory.ValidateNamespace(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", " ", "A", "a/", "/a", "a//b", "../bob", "a/../b", "a/.b", "-a", "_a", "a%2Fb", "a\x00", "é", "a b", "a\n",
		strings.Repeat("x", 201), strings.Repeat("x", 10_000), kv.ReservedScope,
	} {
		var invalid *memory.InvalidError
		if err := memory.ValidateNamespace(name); !errors.As(err, &invalid) || invalid.Field != "namespace" {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	names := []string{"a", "a-b", "a/b", "b"}
	for _, name := range names {
		if _, err := m.Do(t.Context(), name, memory.Create{Path: "/memories/f", FileText: name}, memory.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Do(t.Context(), "viewed", memory.View{Path: "/memories"}, memory.Call{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	after := ""
	for {
		page, next, err := m.Namespaces(t.Context(), memory.AllNamespaces, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range page {
			got = append(got, ns.Name)
			if ns.FileCount != 1 || ns.Size != int64(len(ns.Name)) || ns.Revision != 1 || !ns.Created.Equal(testTime) {
				t.Errorf("got %+v", ns)
			}
		}
		if after = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNamespaces_Filter(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	for _, name := range []string{"a", "a-b", "a/b", "a/b/c", "ab", "b", "b/a", "c"} {
		if _, err := m.Do(t.Context(), name, memory.Create{Path: "/memories/f", FileText: name}, memory.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	isNot := func(hidden string) func(string) bool { return func(name string) bool { return name != hidden } }
	tests := []struct {
		name   string
		filter memory.NamespaceFilter
		want   []string
	}{
		{"nothing", memory.NamespaceFilter{}, nil},
		{"below", memory.NamespaceFilter{Ranges: []memory.NamespaceRange{{Prefix: "a/"}}}, []string{"a/b", "a/b/c"}},
		{
			"prefix that is a name",
			memory.NamespaceFilter{Ranges: []memory.NamespaceRange{{Prefix: "a"}}},
			[]string{"a", "a-b", "a/b", "a/b/c", "ab"},
		},
		{
			"exact",
			memory.NamespaceFilter{Ranges: []memory.NamespaceRange{
				{Prefix: "a", Exact: true}, {Prefix: "aa", Exact: true}, {Prefix: "b/"}, {Prefix: "c", Exact: true},
			}},
			[]string{"a", "b/a", "c"},
		},
		{
			"match",
			memory.NamespaceFilter{Ranges: []memory.NamespaceRange{{}}, Match: isNot("ab")},
			[]string{"a", "a-b", "a/b", "a/b/c", "b", "b/a", "c"},
		},
		{
			"match the last",
			memory.NamespaceFilter{Ranges: []memory.NamespaceRange{{Prefix: "a/"}}, Match: isNot("a/b/c")},
			[]string{"a/b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for limit := 1; limit <= 8; limit++ {
				var got []string
				for after, first := "", true; first || after != ""; first = false {
					page, next, err := m.Namespaces(t.Context(), tt.filter, after, limit)
					if err != nil {
						t.Fatal(err)
					}
					for _, ns := range page {
						got = append(got, ns.Name)
					}
					// The token must not tell of a namespace that is not listed.
					if next != "" && next != got[len(got)-1] {
						t.Fatalf("limit %d: got next %q after %q", limit, next, got)
					}
					after = next
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("limit %d (-want +got)\n%s", limit, diff)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	m := newMemory(t, memory.Settings{ViewMaxChars: new(int64(5))})
	set := func(change memory.SettingsChange) error {
		_, err := m.UpdateSettings(t.Context(), namespace, change, "")
		return err
	}
	for field, change := range map[string]memory.SettingsChange{
		"create_on_existing": {Settings: memory.Settings{CreateOnExisting: new(memory.CreateOnExisting(3))}},
		"view_max_chars":     {Settings: memory.Settings{ViewMaxChars: new(int64(-1))}},
		"max_file_bytes":     {Settings: memory.Settings{MaxFileBytes: new(int64(memory.MaxFileBytes + 1))}},
		"settings":           {},
		"update_mask":        {Names: []string{"colour"}},
	} {
		var invalid *memory.InvalidError
		if err := set(change); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if ns, err := m.Namespace(t.Context(), namespace); err != nil || ns.Revision != 0 {
		t.Errorf("settings that were refused left %+v, %v", ns, err)
	}

	must(t, m, memory.Create{Path: "/memories/f", FileText: "old"})
	if result := do(t, m, memory.Create{Path: "/memories/f", FileText: "new"}); !result.IsError() {
		t.Error("create replaced a file by default")
	}
	if err := set(memory.SettingsChange{Settings: memory.Settings{CreateOnExisting: new(memory.CreateOverwrite)}}); err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Create{Path: "/memories/f", FileText: "new"})
	ns, err := m.Namespace(t.Context(), namespace)
	if err != nil || *ns.Effective.ViewMaxChars != 5 || ns.Settings.ViewMaxChars != nil || ns.Revision != 3 {
		t.Errorf("got %+v, %v", ns, err)
	}
	if err := set(memory.SettingsChange{Names: []string{"create_on_existing"}}); err != nil {
		t.Fatal(err)
	}
	if result := do(t, m, memory.Create{Path: "/memories/f", FileText: "new"}); !result.IsError() {
		t.Error("a setting that was taken back still holds")
	}
}

// breakable is a store whose updates fail once it was told how many more may succeed.
type breakable struct {
	kv.Store
	updates int
}

func (b *breakable) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	if b.updates--; b.updates < 0 {
		return kv.ErrBusy
	}
	return b.Store.Update(ctx, scope, fn)
}

// TestDeleteNamespace checks that a namespace too large for one transaction is gone at once, whatever interrupts its
// deletion, and that its name can be used again.
func TestDeleteNamespace(t *testing.T) {
	const always = 1 << 30
	store := &breakable{memkv.New(), always}
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := m.DeleteNamespace(t.Context(), namespace); !errors.Is(err, memory.ErrNoNamespace) {
		t.Errorf("delete what is not there: %v", err)
	}
	must(t, m, memory.Create{Path: "/memories/d/f", FileText: "x"})
	err = store.Store.Update(t.Context(), namespace, func(tx kv.Tx) error {
		for i := range kv.MaxWrites {
			if err := tx.Put(fmt.Appendf(nil, "\xff%06d", i), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	store.updates = 2 // the mark and a first part
	if err := m.DeleteNamespace(t.Context(), namespace); !errors.Is(err, kv.ErrBusy) {
		t.Fatalf("interrupted: %v", err)
	}
	store.updates = always
	if result := must(t, m, memory.View{Path: "/memories"}); len(result.Entries) != 0 || result.Revision != 0 {
		t.Errorf("a namespace being deleted shows %+v", result)
	}
	if page, next, err := m.Namespaces(t.Context(), memory.AllNamespaces, "", 10); err != nil || len(page) != 0 || next != "" {
		t.Errorf("a namespace being deleted is listed: %v %q %v", page, next, err)
	}
	if result := must(t, m, memory.Create{Path: "/memories/d/f", FileText: "new"}); result.Revision != 1 {
		t.Errorf("a new life starts at revision %d", result.Revision)
	}
	keys := 0
	err = store.View(t.Context(), namespace, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{KeysOnly: true}, func(_, _ []byte) error { keys++; return nil })
	})
	if want := 5; err != nil || keys != want { // the namespace, three entries, a chunk
		t.Errorf("%d keys, %v; want %d", keys, err, want)
	}
	if err := m.DeleteNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if scopes, err := store.Scopes(t.Context(), "", 10); err != nil || len(scopes) != 0 {
		t.Errorf("left: %v, %v", scopes, err)
	}
}

// TestDeleteNamespace_Damaged deletes a namespace whose record is damaged, which the listing names until then.
func TestDeleteNamespace_Damaged(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Create{Path: "/memories/f", FileText: "x"})
	if err := store.Update(t.Context(), namespace, func(tx kv.Tx) error { return tx.Put([]byte("n"), nil) }); err != nil {
		t.Fatal(err)
	}
	var damaged *memory.DamagedError
	_, _, err = m.Namespaces(t.Context(), memory.AllNamespaces, "", 10)
	if !errors.As(err, &damaged) || damaged.Namespace != namespace || damaged.Path != memory.Root {
		t.Errorf("list: %v", err)
	}
	if err := m.DeleteNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if scopes, err := store.Scopes(t.Context(), "", 10); err != nil || len(scopes) > 0 {
		t.Errorf("left: %v, %v", scopes, err)
	}
}

// namesStore notes how many names were read.
type namesStore struct {
	kv.Store
	read int
}

func (s *namesStore) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	names, err := s.Store.Scopes(ctx, after, limit)
	s.read += len(names)
	return names, err
}

// How many namespaces of others there are, and where, must not be told by how much is read.
func TestNamespaces_ReadsNothingOfOthers(t *testing.T) {
	store := &namesStore{Store: memkv.New()}
	kvtest.Check(t, store)
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"acme/own"}
	for i := range 100 {
		names = append(names, fmt.Sprintf("other/n%03d", i))
	}
	for _, name := range names {
		if _, err := m.Do(t.Context(), name, memory.Create{Path: "/memories/f"}, memory.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	own := memory.NamespaceFilter{Ranges: []memory.NamespaceRange{{Prefix: "acme/"}}}
	for _, after := range []string{"other/n050", "other/n099", "zzz", "acme0"} {
		store.read = 0
		if _, _, err := m.Namespaces(t.Context(), own, after, 1000); err != nil || store.read > 0 {
			t.Errorf("after %s: %d names were read (%v), want none", after, store.read, err)
		}
	}
	store.read = 0
	if got, _, err := m.Namespaces(t.Context(), own, "", 1000); err != nil || len(got) != 1 || store.read > 16 {
		t.Errorf("got %v, %v after %d names were read; want one namespace after at most 16", got, err, store.read)
	}
}
