package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
)

// expire runs one pass and returns the paths that it removed.
func (c clocked) expire(m *Memory) ([]string, ExpiryReport) {
	c.Helper()
	var removed []string
	report, err := m.Expire(c.Context(), func(f ExpiredFile) { removed = append(removed, f.Namespace+f.Path) })
	if err != nil {
		c.Fatal(err)
	}
	if len(removed) != report.Removed {
		c.Errorf("told of %d files, and reports %d", len(removed), report.Removed)
	}
	return removed, report
}

// fill makes files of one byte in a directory, many at a time.
func (c clocked) fill(namespace, dir string, files int) {
	c.Helper()
	for from := 0; from < files; {
		var paths []Path
		for range min(1000, files-from) {
			paths = append(paths, Path{[]string{dir, fmt.Sprintf("%05d", from)}})
			from++
		}
		if _, err := c.update(c.Context(), namespace, request{}, step{cmd: fillCommand{}, paths: paths}); err != nil {
			c.Fatal(err)
		}
	}
}

func TestExpire(t *testing.T) {
	c := newClocked(t)
	put := func(namespace, path string) {
		t.Helper()
		if _, err := c.Do(t.Context(), namespace, Put{path, []byte("12345")}, Call{}); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "/memories/f")
	put("test", "/memories/d/e/old")
	put("test", "/memories/pinned")
	put("test", "/memories/viewed")
	put("z", "/memories/f")
	c.must(c.Memory, Pin{Path: "/memories/pinned"})
	for namespace, unread := range map[string]time.Duration{"a": 0, "z": 5 * time.Hour} {
		change := SettingsChange{Settings: Settings{ExpireUnreadAfter: &unread}}
		if _, err := c.UpdateSettings(t.Context(), namespace, change, ""); err != nil {
			t.Fatal(err)
		}
	}
	c.wait(time.Minute)
	c.must(c.Memory, View{Path: "/memories/viewed"})
	c.flush(c.Memory, 1)
	c.wait(3 * time.Hour)

	var got []ExpiredFile
	report, err := c.Expire(t.Context(), func(f ExpiredFile) { got = append(got, f) })
	if err != nil || report != (ExpiryReport{Removed: 1}) {
		t.Errorf("got %+v, %v; want 1 file removed", report, err)
	}
	want := []ExpiredFile{{Namespace: "test", Path: "/memories/d/e/old", Revision: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	ns, err := c.Namespace(t.Context(), "test")
	if err != nil || ns.Revision != 5 || ns.FileCount != 2 || ns.Size != 10 {
		t.Errorf("got %+v, %v; want revision 5 and 2 files", ns, err)
	}
	result, err := c.Do(t.Context(), "test", View{Path: "/memories/d"}, Call{})
	if err != nil || !strings.HasSuffix(result.Content[0].Text, "0B\t/memories/d\n0B\t/memories/d/e/") {
		t.Errorf("got %v, %v; want empty directories", result.Content, err)
	}
	if err := c.Check(t.Context(), "test"); err != nil {
		t.Error(err)
	}
	c.wait(61 * time.Minute)
	if got, _ := c.expire(c.Memory); !slices.Equal(got, []string{"test/memories/viewed"}) {
		t.Errorf("removed %v", got)
	}
	c.wait(time.Hour)
	if got, _ := c.expire(c.Memory); !slices.Equal(got, []string{"z/memories/f"}) {
		t.Errorf("removed %v", got)
	}
	c.must(c.Memory, Pin{Path: "/memories/pinned", Unpin: true})
	c.wait(3 * time.Hour)
	if got, _ := c.expire(c.Memory); len(got) != 0 {
		t.Errorf("removed %v", got)
	}
	c.wait(1)
	if got, _ := c.expire(c.Memory); !slices.Equal(got, []string{"test/memories/pinned"}) {
		t.Errorf("removed %v", got)
	}
	c.must(c.Memory, Create{Path: "/memories/d/e/old"})
}

// TestExpire_Budget has more to remove, and more to look at, than one pass does.
func TestExpire_Budget(t *testing.T) {
	c := newClocked(t)
	c.fill("a", "d", 2*expireRemovals+10)
	c.fill("b", "d", expiryEntries+10)
	for i := range expireNamespaces + 5 {
		if _, err := c.Do(t.Context(), fmt.Sprintf("c/%03d", i), Create{Path: "/memories/f"}, Call{}); err != nil {
			t.Fatal(err)
		}
	}
	c.wait(2 * time.Hour)
	kept := SettingsChange{Settings: Settings{ExpireUnreadAfter: new(100 * time.Hour)}}
	if _, err := c.UpdateSettings(t.Context(), "b", kept, ""); err != nil {
		t.Fatal(err)
	}
	if removed, report := c.expire(c.Memory); len(removed) != 0 || !report.More {
		t.Errorf("removed %d files, %+v; want none, and more to look at", len(removed), report)
	}
	if removed, report := c.expire(c.Memory); len(removed) != 0 || report.More {
		t.Errorf("removed %d files, %+v; want none, and the end", len(removed), report)
	}

	c.wait(2 * time.Hour)
	seen := map[string]bool{}
	m := c.Memory
	for pass, want := range []ExpiryReport{
		{expireRemovals, true},
		{expireRemovals, true},
		{10, true}, // and 10,000 entries of b
		{expireNamespaces + 5, false},
		{0, true},
		{0, false},
	} {
		removed, report := c.expire(m)
		if report != want {
			t.Errorf("pass %d: got %+v, want %+v", pass, report, want)
		}
		for _, p := range removed {
			if seen[p] {
				t.Errorf("%s was removed twice", p)
			}
			seen[p] = true
		}
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		m = c.open() // Another process goes on.
	}
	if err := m.Check(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestExpire_LooksAgain changes a file after it was found to expire, and before it is removed.
func TestExpire_LooksAgain(t *testing.T) {
	const path = "/memories/f"
	for name, change := range map[string]func(c clocked){
		"viewed": func(c clocked) { c.must(c.Memory, View{Path: path}) },
		"viewed and recorded": func(c clocked) {
			c.must(c.Memory, View{Path: path})
			c.flush(c.Memory, 1)
		},
		"edited": func(c clocked) { c.must(c.Memory, Insert{Path: path, InsertText: "x"}) },
		"pinned": func(c clocked) { c.must(c.Memory, Pin{Path: path}) },
		"moved":  func(c clocked) { c.must(c.Memory, Rename{OldPath: path, NewPath: "/memories/g"}) },
		"moved, and there is another with its path": func(c clocked) {
			c.must(c.Memory, Rename{OldPath: "/memories/d", NewPath: "/memories/d2"})
			c.must(c.Memory, Delete{Path: path})
			c.must(c.Memory, Rename{OldPath: "/memories/d2/old", NewPath: path})
		},
		"replaced by a directory": func(c clocked) {
			c.must(c.Memory, Delete{Path: path})
			c.must(c.Memory, Create{Path: path + "/f"})
		},
		"no more expiry": func(c clocked) {
			change := SettingsChange{Settings: Settings{ExpireUnreadAfter: new(time.Duration(0))}}
			if _, err := c.UpdateSettings(c.Context(), "test", change, ""); err != nil {
				c.Fatal(err)
			}
		},
		"namespace deleted": func(c clocked) {
			if err := c.DeleteNamespace(c.Context(), "test"); err != nil {
				c.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t)
			c.must(c.Memory, Create{Path: path})
			c.must(c.Memory, Create{Path: "/memories/d/old"})
			c.must(c.Memory, Pin{Path: "/memories/d/old"})
			c.wait(3*time.Hour + 1)
			c.store.BeforeUpdate = func(string) error {
				c.store.BeforeUpdate = nil
				change(c)
				return nil
			}
			if removed, _ := c.expire(c.Memory); len(removed) != 0 {
				t.Errorf("removed %v, want nothing", removed)
			}
			if err := c.Check(t.Context(), "test"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExpire_Damaged checks that a namespace that is damaged is left out, and named.
func TestExpire_Damaged(t *testing.T) {
	c := newClocked(t)
	damage := map[string][]byte{
		"a": namespaceKey,
		"b": entryKey(Path{[]string{"f"}}),
		"c": readKey(1),
	}
	for _, namespace := range []string{"a", "b", "c", "test"} {
		if _, err := c.Do(t.Context(), namespace, Create{Path: "/memories/f"}, Call{}); err != nil {
			t.Fatal(err)
		}
		if key := damage[namespace]; key != nil {
			err := c.store.Update(t.Context(), namespace, func(tx kv.Tx) error { return tx.Put(key, []byte("x")) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	c.wait(4 * time.Hour)
	report, err := c.Expire(t.Context(), func(ExpiredFile) {})
	if report != (ExpiryReport{Removed: 1}) || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("got %+v, %v; want 1 file removed, and damage", report, err)
	}
	want := "namespace a: /memories is damaged: its record differs from its checksum\n" +
		"namespace b: /memories/f is damaged: its record differs from its checksum\n" +
		"namespace c: /memories is damaged: its record differs from its checksum"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestExpire_Fails lets the store fail at each update: what was removed was told, and the next pass does the rest.
func TestExpire_Fails(t *testing.T) {
	for at := 1; ; at++ {
		c := newClocked(t)
		c.fill("test", "d", 2*expireStep+1)
		c.wait(4 * time.Hour)
		calls := 0
		c.store.BeforeUpdate = func(string) error {
			if calls++; calls == at {
				return kv.ErrBusy
			}
			return nil
		}
		removed := 0
		_, err := c.Expire(t.Context(), func(ExpiredFile) { removed++ })
		c.store.BeforeUpdate = nil
		if calls < at {
			break
		}
		if !errors.Is(err, kv.ErrBusy) {
			t.Errorf("update %d: got %v, want %v", at, err, kv.ErrBusy)
		}
		ns, err := c.Namespace(t.Context(), "test")
		if err != nil || ns.FileCount != int64(2*expireStep+1-removed) {
			t.Errorf("update %d: %d files are left, %v; %d were removed", at, ns.FileCount, err, removed)
		}
		rest, _ := c.expire(c.Memory)
		if removed+len(rest) != 2*expireStep+1 {
			t.Errorf("update %d: %d files were removed, and then %d", at, removed, len(rest))
		}
	}
}

// TestExpire_Unknown loses the answer of a removal: it is told, and the next pass says what is true.
func TestExpire_Unknown(t *testing.T) {
	for _, committed := range []bool{false, true} {
		t.Run(fmt.Sprintf("committed=%t", committed), func(t *testing.T) {
			c := newClocked(t)
			c.must(c.Memory, Create{Path: "/memories/f"})
			c.wait(4 * time.Hour)
			if committed {
				c.store.AfterUpdate = kvtest.OnCall(1, kv.ErrUnknown)
			} else {
				c.Memory.store = lostStore{c.store}
			}
			var got []ExpiredFile
			report, err := c.Expire(t.Context(), func(f ExpiredFile) { got = append(got, f) })
			if !errors.Is(err, kv.ErrUnknown) || report.Removed != 0 {
				t.Errorf("got %+v, %v; want none removed, and %v", report, err, kv.ErrUnknown)
			}
			want := []ExpiredFile{{Namespace: "test", Path: "/memories/f", Revision: 2, Unknown: true}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			c.Memory.store = c.store
			if removed, _ := c.expire(c.Memory); len(removed) != map[bool]int{false: 1}[committed] {
				t.Errorf("the next pass removed %v", removed)
			}
		})
	}
}

// lostStore runs updates, and does not commit them.
type lostStore struct{ kv.Store }

func (s lostStore) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	return s.Store.Update(ctx, scope, func(tx kv.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return kv.ErrUnknown
	})
}

// TestExpire_Stopped ends a pass between two transactions.
func TestExpire_Stopped(t *testing.T) {
	c := newClocked(t)
	c.fill("test", "d", 3*expireStep)
	c.wait(4 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	c.store.AfterUpdate = func(string) error {
		cancel()
		return nil
	}
	report, err := c.Expire(ctx, func(ExpiredFile) {})
	if report.Removed != expireStep || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v; want %d removed", report, err, expireStep)
	}
}

// TestExpire_Cursor reads one that is damaged, which is like none.
func TestExpire_Cursor(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/f"})
	c.wait(4 * time.Hour)
	whole := expiryCursor{"z", []byte("e")}.encode()
	newer := seal(expiryCursorKey, append([]byte{99}, whole[1:len(whole)-4]...))
	for _, stored := range [][]byte{[]byte("x"), newer, seal(expiryCursorKey, []byte{recordVersion, 9})} {
		if got := decodeExpiryCursor(stored); got.namespace != "" || got.entry != nil {
			t.Errorf("%x: got %+v, want the beginning", stored, got)
		}
	}
	if got := decodeExpiryCursor(whole); got.namespace != "z" || string(got.entry) != "e" {
		t.Errorf("got %+v", got)
	}
	err := c.store.Update(t.Context(), kv.ReservedScope, func(tx kv.Tx) error { return tx.Put(expiryCursorKey, newer) })
	if err != nil {
		t.Fatal(err)
	}
	if removed, _ := c.expire(c.Memory); len(removed) != 1 {
		t.Errorf("removed %v, want one file", removed)
	}
}

// TestExpire_LongSetting has a setting that added to the time is more than a clock has.
func TestExpire_LongSetting(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/f"})
	change := SettingsChange{Settings: Settings{ExpireUnreadAfter: new(time.Duration(1<<63 - 1))}}
	if _, err := c.UpdateSettings(t.Context(), "test", change, ""); err != nil {
		t.Fatal(err)
	}
	c.wait(time.Hour)
	if removed, _ := c.expire(c.Memory); len(removed) != 0 {
		t.Errorf("removed %v, want nothing", removed)
	}
}
