package boltkv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// blockCommitter starts an update that holds the committer until release is called, and writes nothing.
func blockCommitter(t *testing.T, store *Store) (release func()) {
	t.Helper()
	running, released := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- store.Update(context.Background(), "blocker", func(kv.Tx) error {
			close(running)
			<-released
			return nil
		})
	}()
	<-running
	return func() {
		t.Helper()
		close(released)
		if err := <-result; err != nil {
			t.Errorf("update that blocked: %v", err)
		}
	}
}

// awaitQueue returns when so many updates wait.
func awaitQueue(store *Store, n int) {
	for {
		store.queue.mu.Lock()
		waiting := len(store.queue.waiting)
		store.queue.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// observeGroups returns the number of updates in each commit from now on. It is to be read when no update runs.
func observeGroups(store *Store) *[]int {
	var groups []int
	store.ObserveCommits(func(c kv.Commit) { groups = append(groups, c.Updates) })
	return &groups
}

func TestUpdate_CommitsGroups(t *testing.T) {
	const callers = 64
	store := openTest(t, Options{Dir: t.TempDir()})
	release := blockCommitter(t, store)
	before := store.db.Stats()
	groups := observeGroups(store)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := store.Update(t.Context(), fmt.Sprintf("scope-%d", i%7), put(fmt.Sprint(i), "x")); err != nil {
				t.Errorf("Update: %v", err)
			}
		})
	}
	awaitQueue(store, callers)
	release()
	wg.Wait()

	if diff := cmp.Diff([]int{callers}, *groups); diff != "" {
		t.Errorf("updates by commit (-want +got)\n%s", diff)
	}
	if got := store.Stats(); got.Updates != callers || got.Commits != 1 {
		t.Errorf("Stats: got %+v, want %d updates in 1 commit", got, callers)
	}
	after := store.db.Stats()
	// Each commit writes three pages or more: of a bucket, of the buckets, and of meta.
	if got, most := after.TxStats.GetWrite()-before.TxStats.GetWrite(), int64(10); got > most {
		t.Errorf("bbolt: got %d writes of pages, want at most %d", got, most)
	}
}

// A group ends where it has enough to write, and the rest is the next.
func TestUpdate_GroupsAreBounded(t *testing.T) {
	const callers = 40
	value := strings.Repeat("v", kv.MaxValueBytes)
	store := openTest(t, Options{Dir: t.TempDir()})
	release := blockCommitter(t, store)
	groups := observeGroups(store)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			err := store.Update(t.Context(), "scope", func(tx kv.Tx) error {
				return errors.Join(put("\xff"+fmt.Sprint(2*i), value)(tx), put("\xff"+fmt.Sprint(2*i+1), value)(tx))
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		})
	}
	awaitQueue(store, callers)
	release()
	wg.Wait()
	// 40 updates of half a MiB in groups of 8 MiB.
	if diff := cmp.Diff([]int{16, 16, 8}, *groups); diff != "" {
		t.Errorf("updates by commit (-want +got)\n%s", diff)
	}
}

// An update without writes costs no commit.
func TestUpdate_WritesNothing(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir()})
	for range 3 {
		if err := store.Update(t.Context(), "a", func(kv.Tx) error { return nil }); err != nil {
			t.Errorf("Update: %v", err)
		}
	}
	if got := store.Stats(); got.Updates != 0 || got.Commits != 0 {
		t.Errorf("Stats: got %+v, want no update and no commit", got)
	}
}

// A caller that gives up does not wait for the committer, nor the committer for it.
func TestUpdate_CallerLeaves(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir()})
	release := blockCommitter(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- store.Update(ctx, "a", put("key", "left")) }()
	awaitQueue(store, 1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) { // Before the release: it did not wait.
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	release()
	mustPut(t, store, "a", "other", "value")
	if got := get(t, store, "a", "key"); got != "" {
		t.Errorf("got value %q, want none", got)
	}
}

// Updates that wait when the store is closed are committed.
func TestClose_DrainsQueue(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	release := blockCommitter(t, store)
	waiting := make(chan error, 1)
	go func() { waiting <- store.Update(t.Context(), "a", put("key", "value")) }()
	awaitQueue(store, 1)
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	release()
	if err := errors.Join(<-waiting, <-closed); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	store = openTest(t, Options{Dir: dir})
	if got, want := get(t, store, "a", "key"), "value"; got != want {
		t.Errorf("got value %q, want %q", got, want)
	}
}

func TestCommit_Fails(t *testing.T) {
	noSpace := fmt.Errorf("write /host/path: %w", syscall.ENOSPC)
	grow := errors.New("file resize error: truncate /host/path: " + syscall.ENOSPC.Error()) // as bbolt words it
	broken := fmt.Errorf("fdatasync /host/path: %w", syscall.EIO)
	before := func(err error) func(*bolt.Tx) error { // fails before the meta page is written
		return func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), err) }
	}
	after := func(err error) func(*bolt.Tx) error { // fails when the meta page is synced
		return func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), err) }
	}
	for _, tt := range []struct {
		name      string
		commit    func(*bolt.Tx) error
		want      error
		wantLater error  // of the next update, with the commit mended
		wantValue string // that a View finds
	}{
		{"no space", before(noSpace), kv.ErrFull, nil, ""},
		{"no space to grow", before(grow), kv.ErrFull, nil, ""},
		{"disk broken", before(broken), kv.ErrReadOnly, kv.ErrReadOnly, ""},
		{"panic", func(*bolt.Tx) error { panic("page 7 is damaged") }, kv.ErrCorrupt, kv.ErrReadOnly, ""},
		{"sync fails", after(broken), kv.ErrUnknown, kv.ErrReadOnly, "value"},
		{"sync fails for space", after(noSpace), kv.ErrUnknown, kv.ErrReadOnly, "value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var log strings.Builder
			store := openTest(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			store.commitTx = tt.commit
			err := store.Update(t.Context(), "a", put("key", "value"))
			if !errors.Is(err, tt.want) {
				t.Errorf("Update: got error %v, want %v", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "/host/path") {
				t.Errorf("Update: got error %q, want one without a path", err)
			}
			if got, want := log.String(), "commit failed"; !strings.Contains(got, want) {
				t.Errorf("log: got %q, want %q", got, want)
			}
			if got := get(t, store, "a", "key"); got != tt.wantValue {
				t.Errorf("View: got %q, want %q", got, tt.wantValue)
			}

			store.commitTx = (*bolt.Tx).Commit
			if err := store.Update(t.Context(), "a", put("later", "value")); !errors.Is(err, tt.wantLater) {
				t.Errorf("next Update: got error %v, want %v", err, tt.wantLater)
			}
			if err := store.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			store = openTest(t, Options{Dir: dir})
			mustPut(t, store, "a", "last", "value")
			if got := get(t, store, "a", "key"); got != tt.wantValue {
				t.Errorf("after opening again: got %q, want %q", got, tt.wantValue)
			}
		})
	}
}

// An update answers what rests on writes of its group only when they are durable.
func TestCommit_FailsForReaders(t *testing.T) {
	errExists := errors.New("key exists")
	for _, tt := range []struct {
		name           string
		commit         func(*bolt.Tx) error
		writer, reader error
	}{
		{
			name:   "committed",
			commit: (*bolt.Tx).Commit,
			reader: errExists,
		},
		{
			name:   "not committed",
			commit: func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) },
			writer: kv.ErrFull,
			reader: kv.ErrBusy,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := openTest(t, Options{Dir: t.TempDir()})
			store.commitTx = tt.commit
			release := blockCommitter(t, store)
			start := func(place int, scope string, fn func(kv.Tx) error) <-chan error {
				result := make(chan error, 1)
				go func() { result <- store.Update(t.Context(), scope, fn) }()
				awaitQueue(store, place)
				return result
			}
			read := func(tx kv.Tx) error {
				values, err := tx.Get([]byte("key"))
				if err == nil && values[0] != nil {
					err = errExists
				}
				return err
			}
			writer := start(1, "a", put("key", "value"))
			reader := start(2, "a", read)
			loner := start(3, "b", read) // Another scope: what the group wrote is nothing to it.
			release()
			for _, result := range []struct {
				name      string
				got, want error
			}{{"writer", <-writer, tt.writer}, {"reader", <-reader, tt.reader}, {"loner", <-loner, nil}} {
				if !errors.Is(result.got, result.want) {
					t.Errorf("%s: got error %v, want %v", result.name, result.got, result.want)
				}
			}
			store.commitTx = (*bolt.Tx).Commit
		})
	}
}

// bbolt's own failure, where it finds no room for its pages.
func TestCommit_Full(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir()})
	mustPut(t, store, "a", "key", "value")
	store.db.MaxSize = 2 << 20
	large := func(tx kv.Tx) error {
		for i := range 20 {
			if err := put("\xff"+fmt.Sprint(i), strings.Repeat("v", kv.MaxValueBytes))(tx); err != nil {
				return err
			}
		}
		return nil
	}
	for range 3 {
		if err := store.Update(t.Context(), "a", large); !errors.Is(err, kv.ErrFull) {
			t.Errorf("large update: got error %v, want %v", err, kv.ErrFull)
		}
		mustPut(t, store, "a", "key", "other")
	}
	store.db.MaxSize = 0
	if err := store.Update(t.Context(), "a", large); err != nil {
		t.Errorf("large update with room: %v", err)
	}
}
