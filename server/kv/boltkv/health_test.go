package boltkv

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// fullStore returns a store whose commits find no room, and its log and clock.
func fullStore(t *testing.T) (store *Store, log *strings.Builder, now *time.Time) {
	t.Helper()
	log, now = &strings.Builder{}, new(time.Unix(1_000_000, 0))
	store = openTest(t, Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "error" {
				return slog.Attr{}
			}
			return a
		},
	}))})
	store.now = func() time.Time { return *now }
	store.commitTx = func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) }
	return store, log, now
}

func TestFull_LogsOncePerMinute(t *testing.T) {
	store, log, now := fullStore(t)
	refuse := func(times int) {
		t.Helper()
		for i := range times {
			if err := store.Update(t.Context(), "a", put(fmt.Sprint(i), "x")); !errors.Is(err, kv.ErrFull) {
				t.Fatalf("Update: got error %v, want %v", err, kv.ErrFull)
			}
		}
	}
	refuse(100)
	*now = now.Add(fullLogInterval - 1)
	refuse(100)
	*now = now.Add(1)
	refuse(100)
	store.commitTx = (*bolt.Tx).Commit
	mustPut(t, store, "a", "key", "value")
	mustPut(t, store, "a", "key", "value")
	store.commitTx = func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) }
	refuse(2)
	store.commitTx = (*bolt.Tx).Commit

	want := []string{
		`level=ERROR msg="commit failed, the disk is full" commits=1`,
		`level=ERROR msg="commit failed, the disk is full" commits=200`,
		`level=INFO msg="commits work again, the disk has room" failed=300`,
		`level=ERROR msg="commit failed, the disk is full" commits=1`,
	}
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log: difference (-want +got):\n%s", diff)
	}
}

func TestHealth_Full(t *testing.T) {
	store, _, now := fullStore(t)
	wantHealth := func(when string, want error) {
		t.Helper()
		if got := store.Health(); !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%s: got error %v, want %v", when, got, want)
		}
	}
	fill := func() {
		t.Helper()
		if err := store.Update(t.Context(), "a", put("key", "x")); !errors.Is(err, kv.ErrFull) {
			t.Fatalf("Update: got error %v, want %v", err, kv.ErrFull)
		}
	}
	wantHealth("before", nil)
	fill()
	wantHealth("after a commit failed", kv.ErrFull)
	*now = now.Add(probeInterval)
	wantHealth("with room, a second later", nil) // Without a write.
	fill()
	store.commitTx = (*bolt.Tx).Commit
	mustPut(t, store, "a", "key", "value")
	wantHealth("after a commit that worked, for it may have been a small one", kv.ErrFull)
	*now = now.Add(probeInterval)
	wantHealth("a second later", nil)
	if diff := cmp.Diff([]string{lockName, fileName}, fileNames(t, store.options.Dir)); diff != "" {
		t.Errorf("files: difference (-want +got):\n%s", diff)
	}
}

// A probe that finds no room is not made more than once a second.
func TestHealth_Probes(t *testing.T) {
	var s space
	probes, result := 0, error(syscall.ENOSPC)
	probe := func() error { probes++; return result }
	now := time.Unix(1_000_000, 0)
	if s.full(now, probe) || probes != 0 {
		t.Errorf("with room: got full or %d probes, want neither", probes)
	}
	s.lacked(slog.New(slog.DiscardHandler), now, syscall.ENOSPC)
	for i := range 30 { // Over three seconds.
		now = now.Add(probeInterval / 10)
		if !s.full(now, probe) {
			t.Errorf("call %d: got room, want none", i)
		}
	}
	if got, want := probes, 3; got != want {
		t.Errorf("got %d probes, want %d", got, want)
	}
	result = nil
	if now = now.Add(probeInterval); s.full(now, probe) {
		t.Error("after a probe that found room: got none")
	}
}

func TestHealth_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	store.commitTx = func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.EIO) }
	if err := store.Update(t.Context(), "a", put("key", "x")); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("Update: got error %v, want %v", err, kv.ErrReadOnly)
	}
	store.commitTx = (*bolt.Tx).Commit
	if err := store.Health(); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("Health after a failed commit: got error %v, want %v", err, kv.ErrReadOnly)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Health(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Health after Close: got error %v, want %v", err, kv.ErrClosed)
	}
	reader := openTest(t, Options{Dir: dir, ReadOnly: true})
	if err := reader.Health(); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("Health of a store for reading: got error %v, want %v", err, kv.ErrReadOnly)
	}
}
