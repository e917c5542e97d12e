package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// TestTop has memoryctl top tell of a load.
func TestTop(t *testing.T) {
	d := start(t)
	c := d.dial(t)
	const callers, files = 8, 10
	var load sync.WaitGroup
	for caller := range callers {
		load.Go(func() {
			for file := range files {
				namespace, path := fmt.Sprint("acme/user-", caller%2), fmt.Sprintf("/memories/%d-%d.md", caller, file)
				_, err := c.Create(t.Context(), &memoryv1.CreateRequest{Namespace: namespace, Path: path, FileText: "text"})
				if err != nil {
					t.Errorf("create: %v", err)
				}
				for _, path := range []string{path, "/memories/none"} {
					if _, err := c.View(t.Context(), &memoryv1.ViewRequest{Namespace: namespace, Path: path}); err != nil {
						t.Errorf("view: %v", err)
					}
				}
			}
		})
	}
	load.Wait()

	out := d.ctl(t, nil, "top", "--once", "-o", "json")
	var resp memoryv1.GetActivityResponse
	if err := protojson.Unmarshal([]byte(out.stdout), &resp); err != nil || out.status != 0 {
		t.Fatalf("%v; got %+v, want an answer of GetActivity", err, out)
	}
	type counts struct{ Calls, Failed int64 }
	got := map[string]counts{}
	for _, m := range resp.GetMethods() {
		got[m.GetMethod()] = counts{m.GetCalls(), m.GetFailedCalls()}
		if l := m.GetLatency(); l.GetP50().AsDuration() <= 0 || l.GetP50().AsDuration() > l.GetP99().AsDuration() ||
			l.GetP99().AsDuration() > l.GetMax().AsDuration() {
			t.Errorf("%s: got latencies %v, want them above 0 and in order", m.GetMethod(), l)
		}
	}
	for _, n := range resp.GetNamespaces() {
		got[n.GetNamespace()] = counts{n.GetCalls(), n.GetFailedCalls()}
	}
	const creates, views = callers * files, 2 * callers * files
	want := map[string]counts{
		memoryv1.MemoryService_Create_FullMethodName: {creates, 0},
		memoryv1.MemoryService_View_FullMethodName:   {views, views / 2},
		"acme/user-0": {(creates + views) / 2, views / 4},
		"acme/user-1": {(creates + views) / 2, views / 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	store := resp.GetStore()
	if store.GetUpdates() < creates || store.GetCommits() == 0 || store.GetCommits() > store.GetUpdates() ||
		store.GetRecentCommits() != store.GetCommits() {
		t.Errorf("got %v, want %d updates or more, and no more commits than that", store, creates)
	}

	out = d.ctl(t, nil, "top")
	for _, want := range []string{"memoryd ", "\nMemoryService/View ", "\nNAMESPACE ", "\nacme/user-1 "} {
		if !strings.Contains(out.stdout, want) {
			t.Errorf("got %s, want a table with %q", out.stdout, want)
		}
	}
}
