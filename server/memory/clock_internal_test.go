package memory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// wantExpire checks what a pass removes, and that the plan says the same before.
func (c clocked) wantExpire(m *Memory, want ...string) {
	c.Helper()
	c.wantExpiring(m, want...)
	var paths []string
	for _, p := range want {
		paths = append(paths, "test"+p)
	}
	removed, _ := c.expire(m)
	if diff := cmp.Diff(paths, removed); diff != "" {
		c.Errorf("removed (-want +got):\n%s", diff)
	}
}

// stopped stops a process cleanly.
func (c clocked) stopped(m *Memory) {
	c.Helper()
	if err := m.Stop(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// TestClock has things go wrong with the clock. What comes out is that /memories/f, which was viewed or written a moment
// ago, has all of its three hours from then, and not much more.
func TestClock(t *testing.T) {
	const path = "/memories/f"
	for name, happen := range map[string]func(c clocked) *Memory{
		"steps ahead": func(c clocked) *Memory {
			c.step(48 * time.Hour)
			return c.Memory
		},
		"steps ahead by more than a minute": func(c clocked) *Memory {
			c.wait(179 * time.Minute)
			c.step(maxStep + 1)
			return c.Memory
		},
		"steps back and ahead, and what is between was written then": func(c clocked) *Memory {
			c.step(-48 * time.Hour)
			c.must(c.Memory, Put{Path: path})
			c.step(48 * time.Hour)
			return c.Memory
		},
		"steps ahead for a moment": func(c clocked) *Memory {
			c.step(48 * time.Hour)
			c.wantExpire(c.Memory)
			c.step(-48 * time.Hour)
			return c.Memory
		},
		"in the past after a crash": func(c clocked) *Memory {
			now := *c.clock
			*c.clock = time.Unix(1000, 0)
			m := c.open()
			c.wantExpire(m)
			*c.clock = now.Add(time.Minute)
			return m
		},
		"in the past when it was written": func(c clocked) *Memory {
			c.stopped(c.Memory)
			c.step(-10_000 * time.Hour)
			m := c.open()
			c.must(m, Put{Path: path})
			c.wantExpire(m)
			c.step(10_000 * time.Hour)
			return m
		},
		"in the past until the next start": func(c clocked) *Memory {
			c.stopped(c.Memory)
			c.step(-10_000 * time.Hour)
			m := c.open()
			c.must(m, Put{Path: path})
			c.stopped(m)
			c.step(10_000 * time.Hour)
			return c.open()
		},
		"ahead until the next start": func(c clocked) *Memory {
			c.step(48 * time.Hour)
			m := c.open()
			c.stopped(m)
			c.step(-48 * time.Hour)
			return c.open()
		},
		"stopped for longer than the setting": func(c clocked) *Memory {
			c.stopped(c.Memory)
			c.step(72 * time.Hour)
			return c.open()
		},
		"stopped for more than an hour": func(c clocked) *Memory {
			c.wait(2 * time.Hour)
			c.stopped(c.Memory)
			c.step(maxOff + 1)
			return c.open()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t)
			c.must(c.Memory, Create{Path: path})
			m := happen(c)
			c.wantExpire(m)
			c.wait(3 * time.Hour)
			c.wantExpire(m)
			c.wait(1)
			c.wantExpire(m, path)
		})
	}
}

// TestClock_Kept sets the clock by so little that files keep their age.
func TestClock_Kept(t *testing.T) {
	for name, happen := range map[string]func(c clocked) *Memory{
		"set by a minute": func(c clocked) *Memory {
			c.step(maxStep)
			c.wantExpire(c.Memory)
			c.step(-maxStep)
			return c.Memory
		},
		"restarted": func(c clocked) *Memory {
			c.stopped(c.Memory)
			c.step(-maxStep)
			m := c.open()
			c.stopped(m)
			c.step(maxStep)
			return c.open()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t)
			c.must(c.Memory, Create{Path: "/memories/f"})
			c.wait(time.Hour)
			m := happen(c)
			c.wait(2*time.Hour + 1)
			c.wantExpire(m, "/memories/f")
		})
	}
}

// TestClock_Missing sets the clock back where views are missing: the floor covers them.
func TestClock_Missing(t *testing.T) {
	c := newClocked(t)
	c.reads.missing = map[string]int64{"test": c.clock.UnixNano()}
	c.step(-48 * time.Hour)
	c.must(c.Memory, Create{Path: "/memories/f"})
	c.wait(3*time.Hour + 1)
	c.wantExpire(c.Memory, "/memories/f")
}

// TestClock_SameID notes a view of a file that has the id of one that was viewed before the clock was set back.
func TestClock_SameID(t *testing.T) {
	c := newClocked(t)
	c.must(c.Memory, Create{Path: "/memories/f"})
	c.wait(2 * time.Hour)
	c.must(c.Memory, View{Path: "/memories/f"})
	if err := c.DeleteNamespace(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	c.step(-2 * time.Hour)
	c.flush(c.Memory, 0)
	c.must(c.Memory, Create{Path: "/memories/f"})
	c.wait(2*time.Hour + 1)
	c.must(c.Memory, View{Path: "/memories/f"})
	c.wait(2 * time.Hour)
	c.wantExpire(c.Memory)
	c.flush(c.Memory, 1)
}

// TestStop_Damaged stops while views of a namespace cannot be recorded: its files count as viewed at the stop, and those
// of others keep their age.
func TestStop_Damaged(t *testing.T) {
	c := newClocked(t)
	do := func(m *Memory, namespace string, cmd Command) {
		t.Helper()
		if result, err := m.Do(t.Context(), namespace, cmd, Call{}); err != nil || result.IsError() {
			t.Fatal(result, err)
		}
	}
	for _, namespace := range []string{"a", "test"} {
		do(c.Memory, namespace, Create{Path: "/memories/f"})
	}
	c.wait(2 * time.Hour)
	do(c.Memory, "a", View{Path: "/memories/f"})
	var whole []byte
	swap := func(value []byte) {
		t.Helper()
		err := c.store.Update(t.Context(), "a", func(tx kv.Tx) error {
			values, err := tx.Get(namespaceKey)
			if err != nil {
				return err
			}
			whole = append([]byte(nil), values[0]...)
			return tx.Put(namespaceKey, value)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	swap([]byte("x"))
	c.wait(30 * time.Minute)
	if err := c.Stop(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("got %v, want %v", err, kv.ErrCorrupt)
	}
	m := c.open()
	c.stopped(m) // It is remembered.
	m = c.open()
	swap(whole) // It can be read again.
	c.wait(30*time.Minute + 1)
	if removed, _ := c.expire(m); !cmp.Equal(removed, []string{"test/memories/f"}) {
		t.Errorf("removed %v, want the file of namespace test", removed)
	}
	c.wait(150*time.Minute - 1)
	if removed, _ := c.expire(m); removed != nil {
		t.Errorf("removed %v, which counts as viewed three hours ago", removed)
	}
	c.wait(1)
	if removed, _ := c.expire(m); !cmp.Equal(removed, []string{"a/memories/f"}) {
		t.Errorf("removed %v, want the file of namespace a", removed)
	}
	c.stopped(m)
}

// TestStop_ManyDamaged has more damaged namespaces than the record of a stop names.
func TestStop_ManyDamaged(t *testing.T) {
	for _, extra := range []int{0, 1} {
		t.Run(fmt.Sprint(maxMissing+extra), func(t *testing.T) {
			c := newClocked(t)
			begin := *c.clock
			for i := range maxMissing + extra {
				namespace := fmt.Sprintf("n%d", i)
				for _, cmd := range []Command{Create{Path: "/memories/f"}, View{Path: "/memories/f"}} {
					if _, err := c.Do(t.Context(), namespace, cmd, Call{}); err != nil {
						t.Fatal(err)
					}
				}
				err := c.store.Update(t.Context(), namespace, func(tx kv.Tx) error { return tx.Put(namespaceKey, []byte("x")) })
				if err != nil {
					t.Fatal(err)
				}
			}
			c.wait(time.Minute)
			if err := c.Stop(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, kv.ErrCorrupt)
			}
			want := begin
			if extra > 0 {
				want = *c.clock
			}
			if got := c.open().Floor(); !got.Equal(want) {
				t.Errorf("the floor is %v, want %v", got, want)
			}
		})
	}
}

// TestReads_SealedDamage damages the records of the reserved scope in a store that notices itself.
func TestReads_SealedDamage(t *testing.T) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	below := memkv.NewWithHeadroom(sealkv.OverheadBytes)
	sealed, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: handle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sealed.Close() })
	c := newClocked(t)
	c.store.Store = sealed
	c.Memory = c.open()
	c.must(c.Memory, Create{Path: "/memories/f"})
	c.stopped(c.Memory)
	if err := c.writeExpiryCursor(t.Context(), expiryCursor{namespace: "z"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{readStateKey, expiryCursorKey} {
		err := below.Update(t.Context(), kv.ReservedScope, func(tx kv.Tx) error {
			values, err := tx.Get(key)
			if err != nil {
				return err
			}
			b := append([]byte(nil), values[0]...)
			b[len(b)-1] ^= 1
			return tx.Put(key, b)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := sealed.CheckValues(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("got %v, want damage", err)
	}
	c.wait(time.Minute)
	m := c.open()
	if got := m.Floor(); !got.Equal(*c.clock) {
		t.Errorf("the floor is %v, want %v", got, *c.clock)
	}
	c.wait(3*time.Hour + 1)
	c.wantExpire(m, "/memories/f")
	c.stopped(m)
	if err := sealed.CheckValues(t.Context()); err != nil {
		t.Errorf("the damage is still there: %v", err)
	}
}
