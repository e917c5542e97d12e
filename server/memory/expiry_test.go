package memory_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestPlanExpiry(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{}, func() time.Time { return now })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Create{Path: "/memories/z"})
	must(t, m, memory.Create{Path: "/memories/d/a", FileText: "text"})
	must(t, m, memory.Create{Path: "/memories/pinned"})
	must(t, m, memory.Pin{Path: "/memories/pinned"})
	now = now.Add(time.Hour)
	viewed := now
	must(t, m, memory.View{Path: "/memories/d/a"})
	now = now.Add(time.Hour)
	must(t, m, memory.Create{Path: "/memories/new"})

	plan := func(q memory.ExpiryQuery) (got []string) {
		t.Helper()
		for {
			page, next, err := m.PlanExpiry(t.Context(), namespace, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page {
				line := f.Entry.Path + " " + f.Expires.Sub(testTime).String()
				if !f.Viewed.IsZero() {
					line += " " + f.Viewed.Sub(testTime).String()
				}
				got = append(got, line)
			}
			if q.After = next; next == "" {
				return got
			}
		}
	}
	const z, a, fresh = "/memories/z 2h0m0s", "/memories/d/a 4h0m0s 1h0m0s", "/memories/new 4h0m0s"
	two := new(2 * time.Hour)
	for _, test := range []struct {
		name string
		q    memory.ExpiryQuery
		want []string
	}{
		{"off", memory.ExpiryQuery{Limit: 10}, nil},
		{"zero", memory.ExpiryQuery{UnreadAfter: new(time.Duration(0)), Limit: 10, Before: now.Add(1e6 * time.Hour)}, nil},
		{"not yet", memory.ExpiryQuery{UnreadAfter: two, Limit: 10}, nil},
		{"just", memory.ExpiryQuery{UnreadAfter: two, Limit: 10, Before: now.Add(1)}, []string{z}},
		{"two hours on", memory.ExpiryQuery{UnreadAfter: two, Limit: 10, Before: now.Add(2 * time.Hour)}, []string{z}},
		{"later", memory.ExpiryQuery{UnreadAfter: two, Limit: 10, Before: now.Add(3 * time.Hour)}, []string{fresh, z, a}},
		{"pages", memory.ExpiryQuery{UnreadAfter: two, Limit: 1, Before: now.Add(3 * time.Hour)}, []string{fresh, z, a}},
	} {
		if diff := cmp.Diff(test.want, plan(test.q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if _, err := m.FlushReads(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{fresh, z, a}, plan(memory.ExpiryQuery{
		UnreadAfter: two, Limit: 10, Before: now.Add(3 * time.Hour),
	})); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	set(t, m, memory.Settings{ExpireUnreadAfter: two})
	if diff := cmp.Diff([]string{z}, plan(memory.ExpiryQuery{Limit: 10, Before: now.Add(1)})); diff != "" {
		t.Errorf("setting of the namespace (-want +got):\n%s", diff)
	}
	page, _, err := m.PlanExpiry(t.Context(), namespace, memory.ExpiryQuery{
		UnreadAfter: two, Limit: 10, Before: now.Add(3 * time.Hour), After: "/memories/z",
	})
	if err != nil || len(page) != 1 || page[0].Entry.Size != 4 || !page[0].Viewed.Equal(viewed) {
		t.Errorf("got %+v, %v; want the file with its entry", page, err)
	}
	for field, q := range map[string]memory.ExpiryQuery{
		"expire_unread_after": {UnreadAfter: new(time.Minute), Limit: 1},
		"page_token":          {After: "/etc/passwd", Limit: 1},
	} {
		var invalid *memory.InvalidError
		if _, _, err := m.PlanExpiry(t.Context(), namespace, q); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if page, next, err := m.PlanExpiry(t.Context(), "none", memory.ExpiryQuery{Limit: 1}); err != nil || next != "" || page != nil {
		t.Errorf("namespace never written: got %v, %q, %v", page, next, err)
	}
}

// TestPlanExpiry_Bounded has more entries than one page looks at.
func TestPlanExpiry_Bounded(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(0))})
	const files = 10_050
	for i := 0; i < files; i += memory.MaxBatchCommands {
		var batch []memory.BatchCommand
		for j := i; j < min(i+memory.MaxBatchCommands, files); j++ {
			path := fmt.Sprintf("/memories/%05d", j)
			batch = append(batch, memory.BatchCommand{Command: memory.Create{Path: path}})
		}
		if result, err := m.Batch(t.Context(), namespace, batch, ""); err != nil || result.Failed.IsError() {
			t.Fatal(result, err)
		}
	}
	q := memory.ExpiryQuery{UnreadAfter: new(time.Hour), Limit: 10}
	page, next, err := m.PlanExpiry(t.Context(), namespace, q)
	if err != nil || len(page) != 0 || next != "/memories/09999" {
		t.Errorf("first page: got %d files, next %q, %v; want none, and 10,000 entries looked at", len(page), next, err)
	}
	q.After = next
	if page, next, err := m.PlanExpiry(t.Context(), namespace, q); err != nil || len(page) != 0 || next != "" {
		t.Errorf("second page: got %d files, next %q, %v; want the end", len(page), next, err)
	}
}
