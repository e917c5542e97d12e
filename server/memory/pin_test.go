package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestPin(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{}, func() time.Time { return now })
	must(t, m, memory.Create{Path: "/memories/d/f", FileText: "a"})
	pinned := func(path string) bool {
		t.Helper()
		result, _, err := m.Read(t.Context(), namespace, path)
		if err != nil || result.IsError() {
			t.Fatal(result, err)
		}
		return result.Entry.Pinned
	}
	now = now.Add(time.Hour)
	result := must(t, m, memory.Pin{Path: "/memories/d/./f"})
	want := memory.Result{Revision: 2, Entry: &memory.Entry{
		Path: "/memories/d/f", Size: 1, Lines: 1, SHA256: result.Entry.SHA256,
		Created: testTime, Modified: now, Revision: 2, Pinned: true,
	}}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("pin (-want +got):\n%s", diff)
	}
	now = now.Add(time.Hour)
	if diff := cmp.Diff(want, must(t, m, memory.Pin{Path: "/memories/d/f"})); diff != "" {
		t.Errorf("pin again (-want +got):\n%s", diff)
	}
	list, _, err := m.List(t.Context(), namespace, "/memories", "", 10)
	if err != nil || list.Revision != 2 || list.Entries[0].Revision != 2 || !list.Entries[1].Pinned {
		t.Errorf("list: got %+v, %v", list, err)
	}

	must(t, m, memory.StrReplace{Path: "/memories/d/f", OldStr: "a", NewStr: "b"})
	must(t, m, memory.Insert{Path: "/memories/d/f", InsertText: "c"})
	must(t, m, memory.Put{Path: "/memories/d/f", Data: []byte("d")})
	must(t, m, memory.Rename{OldPath: "/memories/d/f", NewPath: "/memories/d/g"})
	must(t, m, memory.Rename{OldPath: "/memories/d", NewPath: "/memories/e"})
	if !pinned("/memories/e/g") {
		t.Error("the file is not pinned any more")
	}
	result = must(t, m, memory.Pin{Path: "/memories/e/g", Unpin: true})
	if result.Revision != 8 || result.Entry.Pinned || pinned("/memories/e/g") {
		t.Errorf("unpin: got %+v, %+v; want revision 8", result, result.Entry)
	}
	if result = must(t, m, memory.Pin{Path: "/memories/e/g", Unpin: true}); result.Revision != 8 {
		t.Errorf("unpin again: got revision %d, want 8", result.Revision)
	}
	must(t, m, memory.Pin{Path: "/memories/e/g"})
	must(t, m, memory.Delete{Path: "/memories/e/g"})
	must(t, m, memory.Create{Path: "/memories/e/g"})
	if pinned("/memories/e/g") {
		t.Error("a new file is pinned")
	}
}

func TestPin_Fails(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/d/f"})
	wantText(t, do(t, m, memory.Pin{Path: "/memories/./g"}), memory.ReasonViewPathNotFound,
		"The path /memories/./g does not exist. Please provide a valid path.")
	wantText(t, do(t, m, memory.Pin{Path: "g"}), memory.ReasonPathOutsideMemories,
		"Error: Path must start with /memories, got: g")
	for _, path := range []string{"/memories", "/memories/d"} {
		var invalid *memory.InvalidError
		_, err := m.Do(t.Context(), namespace, memory.Pin{Path: path}, memory.Call{})
		if !errors.As(err, &invalid) || invalid.Field != "path" {
			t.Errorf("%s: got %v, want an *InvalidError about the path", path, err)
		}
	}
}

// TestPin_Repeated repeats a request, and uses its id for something else.
func TestPin_Repeated(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/f"})
	pin := func(unpin bool) (memory.Result, error) {
		return m.Do(t.Context(), namespace, memory.Pin{Path: "/memories/f", Unpin: unpin}, memory.Call{RequestID: "id"})
	}
	first, err := pin(false)
	if err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Pin{Path: "/memories/f", Unpin: true})
	again, err := pin(false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeated (-first +again):\n%s", diff)
	}
	if _, err := pin(true); !errors.Is(err, memory.ErrRequestIDReused) {
		t.Errorf("got %v, want %v", err, memory.ErrRequestIDReused)
	}
}
