package memory_test

import (
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

const tooMany = "Error: Too many memory calls. Wait 1 seconds and try again."

// callers are all ways to call a namespace that count.
func callers(m *memory.Memory) map[string]func(t tester, namespace string) memory.Result {
	ok := func(t tester, result memory.Result, err error) memory.Result {
		t.Helper()
		if err != nil {
			t.Fatalf("call: %v", err)
		}
		return result
	}
	return map[string]func(t tester, namespace string) memory.Result{
		"view": func(t tester, namespace string) memory.Result {
			result, err := m.Do(t.Context(), namespace, memory.View{Path: "/memories"}, memory.Call{})
			return ok(t, result, err)
		},
		"write": func(t tester, namespace string) memory.Result {
			result, err := m.Do(t.Context(), namespace, memory.Put{Path: "/memories/f"}, memory.Call{RequestID: "id"})
			return ok(t, result, err)
		},
		"pin": func(t tester, namespace string) memory.Result {
			result, err := m.Do(t.Context(), namespace, memory.Pin{Path: "/memories/f"}, memory.Call{})
			return ok(t, result, err)
		},
		"bad path": func(t tester, namespace string) memory.Result {
			result, err := m.Do(t.Context(), namespace, memory.View{Path: "f"}, memory.Call{})
			return ok(t, result, err)
		},
		"batch": func(t tester, namespace string) memory.Result {
			result, err := m.Batch(t.Context(), namespace, []memory.BatchCommand{
				{Command: memory.View{Path: "/memories"}}, {Command: memory.View{Path: "/memories"}},
			}, "")
			return ok(t, result.Failed, err)
		},
		"read": func(t tester, namespace string) memory.Result {
			result, _, err := m.Read(t.Context(), namespace, "/memories/f")
			return ok(t, result, err)
		},
		"list": func(t tester, namespace string) memory.Result {
			result, _, err := m.List(t.Context(), namespace, "/memories", "", 10)
			return ok(t, result, err)
		},
	}
}

func TestCallsPerSecond(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{}, func() time.Time { return now })
	must(t, m, memory.Create{Path: "/memories/f"})
	set(t, m, memory.Settings{CallsPerSecond: new(int64(2))}) // does not count
	for name, call := range callers(m) {
		now = now.Add(time.Hour) // as long as that, it is two at once
		for range 2 {
			if got := call(t, namespace); got.Reason == memory.ReasonTooManyCalls {
				t.Errorf("%s: refused: %v", name, got)
			}
		}
		for range 3 { // A refused call uses up nothing.
			wantText(t, call(t, namespace), memory.ReasonTooManyCalls, tooMany)
		}
		now = now.Add(499 * time.Millisecond)
		wantText(t, call(t, namespace), memory.ReasonTooManyCalls, tooMany)
		now = now.Add(time.Millisecond)
		if got := call(t, namespace); got.Reason == memory.ReasonTooManyCalls {
			t.Errorf("%s: refused half a second later: %v", name, got)
		}
		if got := call(t, "other"); got.Reason == memory.ReasonTooManyCalls {
			t.Errorf("%s: refused in another namespace: %v", name, got)
		}
	}
	// Administration goes on.
	if _, err := m.Namespace(t.Context(), namespace); err != nil {
		t.Error(err)
	}
	if _, _, err := m.PlanExpiry(t.Context(), namespace, memory.ExpiryQuery{Limit: 1}); err != nil {
		t.Error(err)
	}
}

// TestCallsPerSecond_Refused checks that a refused write changes nothing and is not recorded under its request id.
func TestCallsPerSecond_Refused(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{CallsPerSecond: new(int64(1))}, func() time.Time { return now })
	must(t, m, memory.View{Path: "/memories"}) // The first call of a namespace is let through.
	must(t, m, memory.View{Path: "/memories"})
	create := func() memory.Result {
		result, err := m.Do(t.Context(), namespace, memory.Create{Path: "/memories/f"}, memory.Call{RequestID: "id"})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	wantText(t, create(), memory.ReasonTooManyCalls, tooMany)
	now = now.Add(time.Second)
	if got := create(); got.Revision != 1 {
		t.Errorf("got %+v, want revision 1", got)
	}
}

// TestCallsPerSecond_Changed checks that a change of the setting applies to the next command.
func TestCallsPerSecond_Changed(t *testing.T) {
	m := newMemory(t, memory.Settings{CallsPerSecond: new(int64(1))})
	must(t, m, memory.View{Path: "/memories"})
	must(t, m, memory.View{Path: "/memories"})
	view := func() memory.Reason { return do(t, m, memory.View{Path: "/memories"}).Reason }
	if got := view(); got != memory.ReasonTooManyCalls {
		t.Errorf("got reason %d, want %d", got, memory.ReasonTooManyCalls)
	}
	set(t, m, memory.Settings{CallsPerSecond: new(int64(0))})
	for range 100 {
		if got := view(); got != memory.ReasonNone {
			t.Errorf("without a limit: got reason %d", got)
		}
	}
	set(t, m, memory.Settings{CallsPerSecond: new(int64(3))})
	for i, want := range []memory.Reason{0, 0, 0, memory.ReasonTooManyCalls} {
		if got := view(); got != want {
			t.Errorf("call %d under a limit of 3: got reason %d, want %d", i, got, want)
		}
	}
}

// TestCallsPerSecond_Raised checks that a limit that is raised or lowered gives nothing at once, and counts from then.
func TestCallsPerSecond_Raised(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{CallsPerSecond: new(int64(2))}, func() time.Time { return now })
	passed := func() (n int) {
		for do(t, m, memory.View{Path: "/memories"}).Reason != memory.ReasonTooManyCalls {
			n++
		}
		return n
	}
	passed()
	set(t, m, memory.Settings{CallsPerSecond: new(int64(10))})
	if got := passed(); got != 0 {
		t.Errorf("%d calls passed at once, want 0", got)
	}
	now = now.Add(time.Hour)
	if got := passed(); got != 10 {
		t.Errorf("%d calls passed an hour after the limit was raised, want 10", got)
	}
	now = now.Add(time.Hour)
	set(t, m, memory.Settings{CallsPerSecond: new(int64(4))})
	if got := passed(); got != 4 {
		t.Errorf("%d calls passed after the limit was lowered, want 4", got)
	}
}
