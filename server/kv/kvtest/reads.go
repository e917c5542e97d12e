package kvtest

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func testGet(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"}, pair{"b", "2"}, pair{"\xffc", "3"}, pair{"zero", "a\x00b"})

	keys := [][]byte{[]byte("\xffc"), []byte("zero"), []byte("absent"), []byte("a"), []byte("a"), []byte("\xff")}
	want := [][]byte{[]byte("3"), []byte("a\x00b"), nil, []byte("1"), []byte("1"), nil}
	check := func(r kv.Reader) error {
		got, err := r.Get(keys...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Get: difference (-want +got):\n%s", diff)
		}
		none, noneErr := r.Get()
		if len(none) != 0 {
			t.Errorf("Get of no keys: got %d values, want none", len(none))
		}
		return errors.Join(err, noneErr)
	}
	if err := store.View(t.Context(), scope, check); err != nil {
		t.Errorf("View: %v", err)
	}
	if err := update(t.Context(), store, scope, func(tx kv.Tx) error { return check(tx) }); err != nil {
		t.Errorf("Update: %v", err)
	}
}

func testEmptyValue(t *testing.T, store kv.Store) {
	check := func(where string, r kv.Reader) error {
		got, err := r.Get([]byte("empty"), []byte("nil"), []byte("\xffempty"))
		for i, value := range got {
			if value == nil || len(value) > 0 {
				t.Errorf("%s: value %d: got %#v, want one that is empty and not nil", where, i, value)
			}
		}
		return err
	}
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return errors.Join(
			tx.Put([]byte("empty"), []byte{}),
			tx.Put([]byte("nil"), nil),
			tx.Put([]byte("\xffempty"), []byte{}),
			check("the same transaction", tx),
		)
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	if err := store.View(t.Context(), scope, func(r kv.Reader) error { return check("a view", r) }); err != nil {
		t.Fatalf("View: %v", err)
	}
	err = update(t.Context(), store, scope, func(tx kv.Tx) error { return check("an update", tx) })
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	want := []pair{{"empty", ""}, {"nil", ""}, {"\xffempty", ""}}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("Scan: difference (-want +got):\n%s", diff)
	}
}

// ordered are keys in byte order that make an engine stumble which compares them as text, as numbers, or with what
// comes after them in its files.
var ordered = []string{
	"\x00", "\x00\x00", "\x00\xff", "\x01", "0", "10", "2", "A", "a", "a\x00", "a\x00b", "a\x01", "a b", "a-", "a.",
	"a/", "a/b", "aa", "a\xff", "a\xff\xff", "b", "foo", "foo|", "foo}", "\xc3\xa9", "\xfe", "\xfe\xff", "\xff",
	"\xff\x00", "\xff\x00\x01", "\xffa", "\xff\xfe", "\xff\xff", "\xff\xff\xff",
}

func testScanOrder(t *testing.T, store kv.Store) {
	var want []pair
	for _, key := range ordered {
		want = append(want, pair{key, "value of " + key})
	}
	for i := range want { // Neither in their order nor against it.
		write(t, store, scope, want[i*7%len(want)])
	}
	if diff := cmp.Diff(want, read(t, store, scope)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

// scanTests are scans of the keys that scanStates arrange.
var scanTests = []struct {
	name string
	opts kv.ScanOptions
	want []string
}{
	{"all", kv.ScanOptions{}, []string{"a", "a\x00", "a\xff", "b", "b/1", "b/2", "b0", "c", "\xff", "\xff1", "\xff2"}},
	{"prefix", kv.ScanOptions{Prefix: []byte("b")}, []string{"b", "b/1", "b/2", "b0"}},
	{"prefix is no key", kv.ScanOptions{Prefix: []byte("b/")}, []string{"b/1", "b/2"}},
	{"prefix ends with the largest byte", kv.ScanOptions{Prefix: []byte("a\xff")}, []string{"a\xff"}},
	{"prefix of nothing", kv.ScanOptions{Prefix: []byte("b/3")}, nil},
	{"prefix after all", kv.ScanOptions{Prefix: []byte("\xff3")}, nil},
	{"prefix of bulk", kv.ScanOptions{Prefix: []byte("\xff")}, []string{"\xff", "\xff1", "\xff2"}},
	{"from a key", kv.ScanOptions{From: []byte("b0")}, []string{"b0", "c", "\xff", "\xff1", "\xff2"}},
	{"from after a key", kv.ScanOptions{From: []byte("b0\x00")}, []string{"c", "\xff", "\xff1", "\xff2"}},
	{"from bulk", kv.ScanOptions{From: []byte("\xff1")}, []string{"\xff1", "\xff2"}},
	{"from after all", kv.ScanOptions{From: []byte("\xff\xff")}, nil},
	{"from longer than a key", kv.ScanOptions{From: make([]byte, kv.MaxKeyBytes+1), Limit: 1}, []string{"a"}},
	{"from within prefix", kv.ScanOptions{Prefix: []byte("b"), From: []byte("b/2")}, []string{"b/2", "b0"}},
	{"from before prefix", kv.ScanOptions{Prefix: []byte("b/"), From: []byte("a")}, []string{"b/1", "b/2"}},
	{"from after prefix", kv.ScanOptions{Prefix: []byte("b/"), From: []byte("b0")}, nil},
	{"from bulk, prefix of records", kv.ScanOptions{Prefix: []byte("b"), From: []byte("\xff")}, nil},
	{"limit", kv.ScanOptions{Limit: 2}, []string{"a", "a\x00"}},
	{"limit across the border to bulk", kv.ScanOptions{From: []byte("c"), Limit: 2}, []string{"c", "\xff"}},
	{"limit at the border to bulk", kv.ScanOptions{From: []byte("c"), Limit: 1}, []string{"c"}},
	{"limit of no use", kv.ScanOptions{From: []byte("\xff1"), Limit: math.MaxInt}, []string{"\xff1", "\xff2"}},
	{"limit with prefix", kv.ScanOptions{Prefix: []byte("b"), Limit: 3}, []string{"b", "b/1", "b/2"}},
	{
		"all of it",
		kv.ScanOptions{Prefix: []byte("b"), From: []byte("b/"), Limit: 2, KeysOnly: true},
		[]string{"b/1", "b/2"},
	},
	{"keys only", kv.ScanOptions{Prefix: []byte("\xff"), KeysOnly: true}, []string{"\xff", "\xff1", "\xff2"}},
}

func testScanOptions(t *testing.T, store kv.Store) {
	all := scanTests[0].want
	// A scan in a transaction has to merge what it wrote with what is stored. Every state shows the same.
	states := []struct {
		name   string
		stored func(i int) bool     // tells whether a key is stored before
		write  func(tx kv.Tx) error // what the transaction then writes
	}{
		{"stored", func(int) bool { return true }, func(kv.Tx) error { return nil }},
		{"written", func(int) bool { return false }, func(tx kv.Tx) error {
			for i := range all {
				key := all[len(all)-1-i]
				if err := tx.Put([]byte(key), []byte("value of "+key)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"half of each", func(i int) bool { return i%2 == 0 }, func(tx kv.Tx) error {
			for i, key := range all {
				if i%2 == 0 {
					continue
				}
				if err := tx.Put([]byte(key), []byte("value of "+key)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"overwritten and deleted", func(int) bool { return true }, func(tx kv.Tx) error {
			for _, key := range all {
				if err := errors.Join(
					tx.Put([]byte(key), []byte("first value")),
					tx.Delete([]byte(key)),
					tx.Put([]byte(key), []byte("value of "+key)),
					tx.Delete([]byte(key+"\x00\x01")), // absent
				); err != nil {
					return err
				}
			}
			return nil
		}},
		{"others deleted", func(int) bool { return true }, func(tx kv.Tx) error {
			for _, key := range all {
				if err := tx.Delete([]byte(key + "\x00\x02")); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			scope := "scan/" + state.name
			for i, key := range all {
				if state.stored(i) {
					write(t, store, scope, pair{key, "value of " + key})
				}
				if state.name == "others deleted" {
					write(t, store, scope, pair{key + "\x00\x02", "to be deleted"})
				}
			}
			err := update(t.Context(), store, scope, func(tx kv.Tx) error {
				if err := state.write(tx); err != nil {
					return err
				}
				return checkScans(t, "in the transaction", tx)
			})
			if err != nil {
				t.Fatalf("Update: %v", err)
			}
			err = store.View(t.Context(), scope, func(r kv.Reader) error { return checkScans(t, "afterwards", r) })
			if err != nil {
				t.Fatalf("View: %v", err)
			}
		})
	}
}

func checkScans(t *testing.T, when string, r kv.Reader) error {
	for _, tt := range scanTests {
		var want []pair
		for _, key := range tt.want {
			value := "value of " + key
			if tt.opts.KeysOnly {
				value = ""
			}
			want = append(want, pair{key, value})
		}
		got, err := scan(r, tt.opts)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: scan %s: difference (-want +got):\n%s", when, tt.name, diff)
		}
	}
	return nil
}

func testScanFunctionFails(t *testing.T, store kv.Store) {
	write(t, store, scope, pair{"a", "1"}, pair{"c", "3"}, pair{"\xff", "4"})
	boom := errors.New("boom")
	for _, tt := range []struct {
		name        string
		returned    error
		want        error
		wantVisited int
	}{
		{"stop", kv.Stop, nil, 1},
		{"error", boom, boom, 1},
	} {
		check := func(r kv.Reader) error { //nolint:unparam // what View takes
			for _, last := range []string{"a", "b", "c", "\xff"} {
				visited := 0
				err := r.Scan(kv.ScanOptions{From: []byte(last)}, func(_, _ []byte) error {
					visited++
					return tt.returned
				})
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("%s from %q: got error %v, want %v", tt.name, last, err, tt.want)
				}
				if visited != tt.wantVisited {
					t.Errorf("%s from %q: got %d keys visited, want %d", tt.name, last, visited, tt.wantVisited)
				}
			}
			return nil
		}
		if err := store.View(t.Context(), scope, check); err != nil {
			t.Errorf("View: %v", err)
		}
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			return errors.Join(tx.Put([]byte("b"), []byte("2")), check(tx))
		})
		if err != nil {
			t.Errorf("Update: %v", err)
		}
	}
}
