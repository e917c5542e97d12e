package kvtest

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// model is what a store should hold: scope, key, value. No scope in it is empty.
type model map[string]map[string]string

// step is one call on a transaction.
type step struct {
	op    string
	keys  []string
	value string
	opts  kv.ScanOptions
}

// Few bytes and short keys make transactions meet.
var (
	modelScope = rapid.SampledFrom([]string{"a", "a\x01", "a/b", "b", "~stores"})
	modelKey   = rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', 0xfe, 0xff}), 1, 3),
		func(b []byte) string { return string(b) })
	modelPrefix = rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', 0xfe, 0xff}), 0, 2),
		func(b []byte) string { return string(b) })
	modelValue = rapid.SampledFrom([]string{
		"", "x", "value", strings.Repeat("v", 3_000), strings.Repeat("w", 20_000),
	})
	modelOptions = rapid.Custom(func(t *rapid.T) kv.ScanOptions {
		return kv.ScanOptions{
			Prefix:   []byte(modelPrefix.Draw(t, "prefix")),
			From:     []byte(modelPrefix.Draw(t, "from")),
			Limit:    rapid.IntRange(0, 4).Draw(t, "limit"),
			KeysOnly: rapid.Bool().Draw(t, "keys only"),
		}
	})
	modelRead = rapid.Custom(func(t *rapid.T) step {
		if rapid.Bool().Draw(t, "scan") {
			return step{op: "scan", opts: modelOptions.Draw(t, "options")}
		}
		return step{op: "get", keys: rapid.SliceOfN(modelKey, 1, 4).Draw(t, "keys")}
	})
	modelWrite = rapid.Custom(func(t *rapid.T) step {
		keys := []string{modelKey.Draw(t, "key")}
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			return step{op: "delete", keys: keys}
		}
		return step{op: "put", keys: keys, value: modelValue.Draw(t, "value")}
	})
	modelStep = rapid.OneOf(modelRead, modelWrite)
)

// testModel does at random to the store and to a map what callers do, and compares all that they give.
func testModel(t *testing.T, store kv.Store) {
	boom := errors.New("boom")
	rapid.Check(t, func(rt *rapid.T) {
		wipe(t, store)
		want := model{}
		rt.Repeat(map[string]func(*rapid.T){
			"update": func(rt *rapid.T) {
				scope := modelScope.Draw(rt, "scope")
				steps := rapid.SliceOfN(modelStep, 1, 12).Draw(rt, "steps")
				fails := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
				var content map[string]string
				err := update(t.Context(), store, scope, func(tx kv.Tx) error {
					content = maps.Clone(want[scope]) // Anew each time that the function runs.
					if content == nil {
						content = map[string]string{}
					}
					for _, s := range steps {
						if err := s.write(tx, content); err != nil {
							return err
						}
						s.read(rt, tx, content)
					}
					if fails {
						return boom
					}
					return nil
				})
				switch {
				case fails:
					if !errors.Is(err, boom) {
						rt.Fatalf("Update: got error %v, want %v", err, boom)
					}
				case err != nil:
					rt.Fatalf("Update: %v", err)
				case len(content) == 0:
					delete(want, scope)
				default:
					want[scope] = content
				}
			},
			"view": func(rt *rapid.T) {
				scope := modelScope.Draw(rt, "scope")
				steps := rapid.SliceOfN(modelRead, 1, 4).Draw(rt, "steps")
				err := store.View(t.Context(), scope, func(r kv.Reader) error {
					for _, s := range steps {
						s.read(rt, r, want[scope])
					}
					return nil
				})
				if err != nil {
					rt.Fatalf("View: %v", err)
				}
			},
			"scopes": func(rt *rapid.T) {
				after := rapid.OneOf(modelScope, rapid.Just(""), rapid.Just("a\x00")).Draw(rt, "after")
				limit := rapid.IntRange(1, 6).Draw(rt, "limit")
				got, err := store.Scopes(t.Context(), after, limit)
				if err != nil {
					rt.Fatalf("Scopes: %v", err)
				}
				names := slices.Sorted(maps.Keys(want))
				names = slices.DeleteFunc(names, func(name string) bool { return name <= after })
				names = names[:min(limit, len(names))]
				if !slices.Equal(got, names) {
					rt.Fatalf("Scopes after %q: got %q, want %q", after, got, names)
				}
			},
		})
	})
}

// wipe empties the store.
func wipe(t *testing.T, store kv.Store) {
	t.Helper()
	for _, scope := range scopes(t, store, 100) {
		pairs := read(t, store, scope)
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			for _, p := range pairs {
				if err := tx.Delete([]byte(p.Key)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("wipe scope %q: %v", scope, err)
		}
	}
}

// write does a step that writes to the transaction and to what the scope should hold.
func (s step) write(tx kv.Tx, content map[string]string) error {
	switch s.op {
	case "put":
		content[s.keys[0]] = s.value
		return tx.Put([]byte(s.keys[0]), []byte(s.value))
	case "delete":
		delete(content, s.keys[0])
		return tx.Delete([]byte(s.keys[0]))
	}
	return nil
}

// read does a step that reads and compares it with what the scope should hold.
func (s step) read(rt *rapid.T, r kv.Reader, content map[string]string) {
	switch s.op {
	case "get":
		keys := make([][]byte, len(s.keys))
		want := make([][]byte, len(s.keys))
		for i, key := range s.keys {
			keys[i] = []byte(key)
			if value, ok := content[key]; ok {
				want[i] = []byte(value)
			}
		}
		got, err := r.Get(keys...)
		if err != nil {
			rt.Fatalf("Get: %v", err)
		}
		if !reflect.DeepEqual(want, got) { // cmp takes long, and here it would nearly all of the time.
			diff := cmp.Diff(want, got)
			rt.Fatalf("Get of %q: difference (-want +got):\n%s", s.keys, diff)
		}
	case "scan":
		var want []pair
		for _, key := range slices.Sorted(maps.Keys(content)) {
			if !strings.HasPrefix(key, string(s.opts.Prefix)) || key < string(s.opts.From) {
				continue
			}
			if s.opts.Limit > 0 && len(want) == s.opts.Limit {
				break
			}
			value := content[key]
			if s.opts.KeysOnly {
				value = ""
			}
			want = append(want, pair{key, value})
		}
		got, err := scan(r, s.opts)
		if err != nil {
			rt.Fatalf("Scan: %v", err)
		}
		if !slices.Equal(want, got) {
			diff := cmp.Diff(want, got)
			rt.Fatalf("Scan %+v: difference (-want +got):\n%s", s.opts, diff)
		}
	}
}
