package boltkv

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
)

// upper copies scope a with its values in capitals.
func upper(ctx context.Context, old, to kv.Store) error {
	return to.Update(ctx, "a", func(tx kv.Tx) error {
		return old.View(ctx, "a", func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(key, value []byte) error {
				return tx.Put(key, []byte(strings.ToUpper(string(value))))
			})
		})
	})
}

func rewriteOptions(dir string) RewriteOptions {
	return RewriteOptions{
		Options: Options{Dir: dir}, Fill: upper, Suffix: "before-test",
		Now: rewriteTime,
	}
}

func rewriteTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

const rewriteKept = fileName + ".before-test-20260102T030405Z"

// small makes a store with one value.
func small(t *testing.T, dir string) {
	t.Helper()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	small(t, dir)
	kept, err := Rewrite(t.Context(), rewriteOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, rewriteKept); kept != want {
		t.Errorf("got %s kept, want %s", kept, want)
	}
	if diff := cmp.Diff(map[string]string{"a key": "VALUE"}, contents(t, dir)); diff != "" {
		t.Errorf("new store (-want +got):\n%s", diff)
	}
	if got := freeListPages(t, filepath.Join(dir, fileName)); got == 0 {
		t.Error("got no list of free pages, want one so that the next start is quick")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got files %v, %v, want two databases", entries, err)
	}
	if err := os.Rename(kept, filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a key": "value"}, contents(t, dir)); diff != "" {
		t.Errorf("old store (-want +got):\n%s", diff)
	}
}

func TestRewrite_Fails(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name   string
		change func(o *RewriteOptions, cancel func())
		want   error
	}{
		{"fill fails", func(o *RewriteOptions, _ func()) {
			o.Fill = func(ctx context.Context, old, to kv.Store) error { return errors.Join(upper(ctx, old, to), boom) }
		}, boom},
		{"old store is written to", func(o *RewriteOptions, _ func()) {
			o.Fill = func(ctx context.Context, old, _ kv.Store) error { return old.Update(ctx, "a", put("key", "other")) }
		}, kv.ErrReadOnly},
		{"refused", func(o *RewriteOptions, _ func()) {
			o.Check = func(context.Context, kv.Store) error { return boom }
		}, boom},
		{"interrupted", func(o *RewriteOptions, cancel func()) { o.step = func(string) { cancel() } }, context.Canceled},
		{"name is taken", func(o *RewriteOptions, _ func()) {
			if err := os.WriteFile(filepath.Join(o.Dir, rewriteKept), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrExist},
		{"no store", func(o *RewriteOptions, _ func()) { o.Dir = filepath.Join(o.Dir, "none") }, fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			small(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := rewriteOptions(dir)
			tt.change(&o, cancel)
			if kept, err := Rewrite(ctx, o); !errors.Is(err, tt.want) {
				t.Errorf("got %q, %v, want %v", kept, err, tt.want)
			}
			wantNoLeftovers(t, dir)
			wantValue(t, dir, "value")
		})
	}
}

func childRewrite(dir string) int {
	_, err := Rewrite(context.Background(), RewriteOptions{
		Options: Options{Dir: dir, step: stopAt}, Fill: upper, Suffix: "before-test", Now: rewriteTime,
	})
	return exitCode(err)
}

func TestRewrite_Killed(t *testing.T) {
	for step, want := range map[string]string{"filled": "value", "kept": "value", "swapped": "VALUE"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			small(t, dir)
			killAt(t, "rewrite", dir, step)
			wantValue(t, dir, want)
			if _, err := os.Stat(filepath.Join(dir, rewriteKept)); (err == nil) != (step != "filled") {
				t.Errorf("the old store: got error %v", err)
			}
			openTest(t, Options{Dir: dir}) // The next start clears up.
			wantNoLeftovers(t, dir)
		})
	}
}

// The store that is there is looked at before a byte of it changes.
func TestOpen_Check(t *testing.T) {
	dir := t.TempDir()
	calls := 0
	boom := errors.New("boom")
	check := func(result error) func(ctx context.Context, store kv.Store) error {
		return func(ctx context.Context, store kv.Store) error {
			calls++
			if got := get(t, store, "a", "key"); got != "value" {
				t.Errorf("got %q, want value", got)
			}
			if err := store.Update(ctx, "a", put("key", "other")); !errors.Is(err, kv.ErrReadOnly) {
				t.Errorf("Update: got %v, want %v", err, kv.ErrReadOnly)
			}
			return result
		}
	}
	store := openTest(t, Options{Dir: dir, Check: check(nil)})
	if calls != 0 {
		t.Error("Check was called where there was no store")
	}
	mustPut(t, store, "a", "key", "value")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, lock := range []bool{false, true} { // With one that was left behind by a process that was killed.
		if lock {
			if err := writeHolder(filepath.Join(dir, lockName), ""); err != nil {
				t.Fatal(err)
			}
		}
		before := snapshotDir(t, dir)
		if _, err := Open(t.Context(), Options{Dir: dir, Check: check(boom)}); !errors.Is(err, boom) {
			t.Errorf("got %v, want %v", err, boom)
		}
		if diff := cmp.Diff(before, snapshotDir(t, dir)); diff != "" {
			t.Errorf("the directory has changed (-before +after):\n%s", diff)
		}
	}
	openTest(t, Options{Dir: dir, Check: check(nil)})
	if got, want := calls, 3; got != want {
		t.Errorf("got %d calls, want %d", got, want)
	}
}

// snapshotDir is what the files of a directory hold.
func snapshotDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}

func TestHeadroom(t *testing.T) {
	kvtest.Headroom(t, kv.MaxOverheadBytes, func(t *testing.T) kv.Store {
		return openTest(t, Options{Dir: t.TempDir(), OverheadBytes: kv.MaxOverheadBytes})
	})
}

// A value with headroom is read by a store that was opened without.
func TestHeadroom_ReadWithout(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir, OverheadBytes: kv.MaxOverheadBytes})
	value := strings.Repeat("v", kv.MaxValueBytes+kv.MaxOverheadBytes)
	mustPut(t, store, "a", "\xffkey", value)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openTest(t, Options{Dir: dir})
	if got := get(t, store, "a", "\xffkey"); got != value {
		t.Errorf("got %d bytes, want %d", len(got), len(value))
	}
	if err := store.Update(t.Context(), "a", put("\xffkey", value)); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("Put: got %v, want %v", err, kv.ErrTooLarge)
	}
}
