package memory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

// clocked is a Memory on a store that can fail, with a clock that stands still.
type clocked struct {
	*Memory
	*testing.T
	store   *kvtest.Faulty
	clock   *time.Time
	elapsed *time.Duration
}

// newClocked returns a started one, in which files expire after three hours.
func newClocked(t *testing.T) clocked {
	t.Helper()
	clock := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	store := &kvtest.Faulty{Store: kvtest.Harsh(memkv.New())}
	t.Cleanup(func() { _ = store.Close() })
	c := clocked{T: t, store: store, clock: &clock, elapsed: new(time.Duration)}
	c.Memory = c.open()
	return c
}

// open starts another process on the store.
func (c clocked) open() *Memory {
	c.Helper()
	m, err := New(c.store, Options{
		Defaults: Settings{ExpireUnreadAfter: new(3 * time.Hour)}, Now: func() time.Time { return *c.clock },
		Elapsed: func() time.Duration { return *c.elapsed },
	})
	if err != nil {
		c.Fatal(err)
	}
	if err := m.Start(c.Context()); err != nil {
		c.Fatal(err)
	}
	return m
}

// wait lets time pass, and step sets the clock.
func (c clocked) wait(d time.Duration) { c.step(d); *c.elapsed += d }
func (c clocked) step(d time.Duration) { *c.clock = c.clock.Add(d) }

func (c clocked) must(m *Memory, cmd Command) {
	c.Helper()
	if result, err := m.Do(c.Context(), "test", cmd, Call{}); err != nil || result.IsError() {
		c.Fatalf("%s: %v, %v", cmd.Name(), result, err)
	}
}

func (c clocked) flush(m *Memory, want int) {
	c.Helper()
	if got, err := m.FlushReads(c.Context()); err != nil || got != want {
		c.Errorf("recorded %d views, %v; want %d", got, err, want)
	}
}

// recorded are the views that the store has, by path.
func (c clocked) recorded() map[string]time.Time {
	c.Helper()
	all := map[string]time.Time{}
	err := c.store.View(c.Context(), "test", func(r kv.Reader) error {
		t := &tree{reader: r}
		entries, err := t.scan(kv.ScanOptions{Prefix: []byte{entryPrefix}, From: levelPrefix(Path{}, 1)})
		if err != nil {
			return err
		}
		for _, e := range entries {
			n, err := e.decode()
			if err != nil {
				return err
			}
			values, err := r.Get(readKey(n.id))
			if err != nil {
				return err
			}
			at, err := decodeRead(readKey(n.id), values[0])
			if err != nil {
				return err
			}
			if at != 0 {
				all[keyPath(e.key).String()] = instant(at)
			}
		}
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
	return all
}

func (c clocked) wantRecorded(want map[string]time.Time) {
	c.Helper()
	if diff := cmp.Diff(want, c.recorded()); diff != "" {
		c.Errorf("recorded views (-want +got):\n%s", diff)
	}
}

// wantExpiring checks which files have expired.
func (c clocked) wantExpiring(m *Memory, want ...string) {
	c.Helper()
	files, _, err := m.PlanExpiry(c.Context(), "test", ExpiryQuery{Limit: 100})
	if err != nil {
		c.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Entry.Path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("files that have expired (-want +got):\n%s", diff)
	}
}

// TestFlushReads checks that views are recorded once an hour, without a revision.
func TestFlushReads(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	c.must(c.Memory, Create{Path: "/memories/b"})
	c.wait(time.Minute)
	first := *c.clock
	c.must(c.Memory, View{Path: "/memories/a"})
	c.wantRecorded(map[string]time.Time{})
	c.flush(c.Memory, 1)
	c.wantRecorded(map[string]time.Time{"/memories/a": first})
	c.wait(readInterval - 1)
	c.must(c.Memory, View{Path: "/memories/a"})
	c.flush(c.Memory, 0)
	c.wait(1)
	c.must(c.Memory, View{Path: "/memories/a"})
	c.flush(c.Memory, 1)
	c.flush(c.Memory, 0)
	c.wantRecorded(map[string]time.Time{"/memories/a": first.Add(readInterval)})
	ns, err := c.Namespace(t.Context(), "test")
	if err != nil || ns.Revision != 2 {
		t.Errorf("got %+v, %v; want revision 2", ns, err)
	}
	if err := c.Check(t.Context(), "test"); err != nil {
		t.Error(err)
	}
}

// TestFlushReads_AfterRestart views a file within an hour of what a process before has recorded: that covers the view,
// and the hour does not begin anew with it.
func TestFlushReads_AfterRestart(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	recorded := *c.clock
	c.must(c.Memory, View{Path: "/memories/a"})
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := c.open()
	c.wait(50 * time.Minute)
	c.must(m, View{Path: "/memories/a"})
	c.flush(m, 0)
	c.wantRecorded(map[string]time.Time{"/memories/a": recorded})
	c.wait(50 * time.Minute)
	c.must(m, View{Path: "/memories/a"})
	c.flush(m, 1)
	c.wantRecorded(map[string]time.Time{"/memories/a": *c.clock})
}

// TestFlushReads_SameID deletes a namespace and makes it again: its files have the ids of those that were there.
func TestFlushReads_SameID(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	c.must(c.Memory, View{Path: "/memories/a"})
	if err := c.DeleteNamespace(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	c.flush(c.Memory, 0)
	if scopes, err := c.store.Scopes(t.Context(), "", 10); err != nil || len(scopes) != 0 {
		t.Errorf("namespaces: %v, %v; want none", scopes, err)
	}
	c.wait(time.Minute)
	c.must(c.Memory, Create{Path: "/memories/b"})
	c.wait(time.Minute)
	c.must(c.Memory, View{Path: "/memories/b"})
	c.flush(c.Memory, 1)
	c.wantRecorded(map[string]time.Time{"/memories/b": *c.clock})
}

// TestFlushReads_Moved moves and deletes files between their view and the flush.
func TestFlushReads_Moved(t *testing.T) {
	c := newClocked(t)
	for _, name := range []string{"d/a", "d/b", "c"} {
		c.must(c.Memory, Create{Path: "/memories/" + name})
		c.must(c.Memory, View{Path: "/memories/" + name})
	}
	c.must(c.Memory, Delete{Path: "/memories/d/b"})
	c.must(c.Memory, Rename{OldPath: "/memories/d", NewPath: "/memories/e"})
	c.must(c.Memory, Create{Path: "/memories/d/a"})
	c.flush(c.Memory, 1) // /memories/c; where the other is it finds out
	c.flush(c.Memory, 1)
	c.flush(c.Memory, 0)
	c.wantRecorded(map[string]time.Time{"/memories/c": *c.clock, "/memories/e/a": *c.clock})
	if n := len(c.reads.pending); n != 0 {
		t.Errorf("%d views are kept, want none", n)
	}
}

// TestFlushReads_Fails checks that views are kept and count where they cannot be recorded, and so are those that come
// while others are being recorded.
func TestFlushReads_Fails(t *testing.T) {
	for _, failure := range []error{kv.ErrFull, kv.ErrReadOnly, kv.ErrUnknown} {
		t.Run(failure.Error(), func(t *testing.T) {
			c := newClocked(t)
			c.must(c.Memory, Create{Path: "/memories/a"})
			c.must(c.Memory, Create{Path: "/memories/b"})
			c.wait(2 * time.Hour)
			c.must(c.Memory, View{Path: "/memories/a"})
			c.store.BeforeUpdate = func(string) error { return failure }
			if _, err := c.FlushReads(t.Context()); !errors.Is(err, failure) {
				t.Errorf("got %v, want %v", err, failure)
			}
			c.must(c.Memory, View{Path: "/memories/a"}) // Views go on.
			c.wait(90 * time.Minute)
			c.wantExpiring(c.Memory, "/memories/b")
			c.store.BeforeUpdate = nil
			c.store.AfterUpdate = func(string) error {
				c.store.AfterUpdate = nil
				c.must(c.Memory, View{Path: "/memories/a"})
				return nil
			}
			c.flush(c.Memory, 1)
			c.flush(c.Memory, 1)
			c.wantRecorded(map[string]time.Time{"/memories/a": *c.clock})
		})
	}
}

// TestFlushReads_Damaged has one namespace that is damaged; views of the others are recorded.
func TestFlushReads_Damaged(t *testing.T) {
	c := newClocked(t)
	for _, namespace := range []string{"a", "test"} {
		for _, cmd := range []Command{Create{Path: "/memories/f"}, View{Path: "/memories/f"}} {
			if _, err := c.Do(t.Context(), namespace, cmd, Call{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := c.store.Update(t.Context(), "a", func(tx kv.Tx) error { return tx.Put(namespaceKey, []byte("x")) })
	if err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	n, err := c.FlushReads(t.Context())
	if n != 1 || !errors.As(err, &damaged) || damaged.Namespace != "a" {
		t.Errorf("recorded %d views, %v; want 1, and namespace a damaged", n, err)
	}
}

// TestReads_Overflow views more files than there is room for: all count as viewed then.
func TestReads_Overflow(t *testing.T) {
	c := newClocked(t)
	reads := newReads(c.reads.clock, nil, 4, 100)
	reads.start(readState{})
	c.reads = reads
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf("/memories/%d", i))
		c.must(c.Memory, Create{Path: all[i]})
	}
	due := func() bool {
		select {
		case <-c.ReadsDue():
			return true
		default:
			return false
		}
	}
	c.wait(2 * time.Hour)
	c.must(c.Memory, View{Path: all[0]})
	if due() {
		t.Error("a flush is due after the first view")
	}
	c.must(c.Memory, View{Path: all[1]})
	if !due() {
		t.Error("no flush is due where half of the room is used")
	}
	c.must(c.Memory, View{Path: all[2]})
	c.must(c.Memory, View{Path: all[3]})
	c.wait(90 * time.Minute)
	c.wantExpiring(c.Memory, all[4])
	c.must(c.Memory, View{Path: all[4]}) // There is no room for it.
	dropped := *c.clock
	if !due() {
		t.Error("no flush is due where there is no room")
	}
	c.flush(c.Memory, 4)
	c.wait(3 * time.Hour)
	c.wantExpiring(c.Memory)
	c.must(c.Memory, View{Path: all[4]}) // It was not noted, so that it is now.
	c.wait(1)
	c.wantExpiring(c.Memory, all[:4]...)
	// The floor is that of the namespace alone, and outlives a restart.
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads = c.open().reads
	if got := instant(reads.missing["test"]); !got.Equal(dropped) {
		t.Errorf("the floor of the namespace is %v after a restart, want %v", got, dropped)
	}
	if got := instant(reads.floor); !got.Before(dropped) {
		t.Errorf("the floor of all is %v after a restart, want it as it was", got)
	}
}

// TestReads_Raise raises the floors of more namespaces than have one of their own.
func TestReads_Raise(t *testing.T) {
	r := newClocked(t).reads
	r.floor = 0
	for i := range int64(maxMissing + 10) {
		r.raise(fmt.Sprint("n", i), 1000+i)
	}
	if len(r.missing) != maxMissing || r.floor != 1009 {
		t.Errorf("got %d floors and %d as that of all, want %d and 1009", len(r.missing), r.floor, maxMissing)
	}
}

// TestStart tells a crash from a stop.
func TestStart(t *testing.T) {
	c := newClocked(t)
	begin := *c.clock
	floor := func(m *Memory, want time.Time) {
		t.Helper()
		if got := instant(m.reads.floor); !got.Equal(want) {
			t.Errorf("the floor is %v, want %v", got, want)
		}
	}
	floor(c.Memory, begin) // New stores know of no views.
	c.wait(time.Hour)
	if err := c.Start(t.Context()); err != nil {
		t.Error(err)
	}
	floor(c.Memory, begin) // It was started before.
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wait(maxOff)
	m := c.open()
	floor(m, begin)
	c.wait(time.Minute)
	floor(c.open(), *c.clock) // m has not stopped.

	for name, value := range map[string][]byte{"damaged": []byte("x"), "newer": seal(readStateKey, []byte{99})} {
		c.wait(time.Hour)
		err := c.store.Update(t.Context(), kv.ReservedScope, func(tx kv.Tx) error { return tx.Put(readStateKey, value) })
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(*testing.T) { floor(c.open(), *c.clock) })
	}
}

// TestStart_Fails checks that nothing expires before Start, and that it can be called again.
func TestStart_Fails(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := New(c.store, Options{Defaults: Settings{ExpireUnreadAfter: new(time.Hour)}, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	c.store.BeforeUpdate = func(string) error { return kv.ErrFull }
	if err := m.Start(t.Context()); !errors.Is(err, kv.ErrFull) {
		t.Errorf("got %v, want %v", err, kv.ErrFull)
	}
	c.wait(100 * time.Hour)
	c.wantExpiring(m)
	if report, err := m.Expire(t.Context(), func(ExpiredFile) {}); err != nil || report != (ExpiryReport{}) {
		t.Errorf("got %+v, %v; want nothing removed", report, err)
	}
	if err := m.Stop(t.Context()); !errors.Is(err, kv.ErrFull) {
		t.Errorf("got %v, want %v", err, kv.ErrFull)
	}
	c.store.BeforeUpdate = nil
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wantExpiring(m)
	c.wait(time.Hour + 1)
	c.wantExpiring(m, "/memories/a")
}

// TestStop_Fails checks that a process that could not record its views has not stopped cleanly.
func TestStop_Fails(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	c.must(c.Memory, View{Path: "/memories/a"})
	c.store.BeforeUpdate = func(scope string) error {
		if scope == "test" {
			return kv.ErrFull
		}
		return nil
	}
	if err := c.Stop(t.Context()); !errors.Is(err, kv.ErrFull) {
		t.Errorf("got %v, want %v", err, kv.ErrFull)
	}
	c.wait(time.Hour)
	if got := instant(c.open().reads.floor); !got.Equal(*c.clock) {
		t.Errorf("the floor is %v, want %v", got, *c.clock)
	}
}

// TestCheck_Reads damages the record of a view; one of no file is fine.
func TestCheck_Reads(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/a"})
	put := func(id uint64, value []byte) {
		t.Helper()
		err := c.store.Update(t.Context(), "test", func(tx kv.Tx) error { return tx.Put(readKey(id), value) })
		if err != nil {
			t.Fatal(err)
		}
	}
	put(77, encodeRead(readKey(77), 1))
	if err := c.Check(t.Context(), "test"); err != nil {
		t.Error(err)
	}
	put(78, encodeRead(readKey(77), 1))
	want := "/memories is damaged: the record 61000000000000004e of when a file was viewed differs from its checksum"
	if err := c.Check(t.Context(), "test"); !errors.Is(err, kv.ErrCorrupt) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
