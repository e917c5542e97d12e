package memory_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// wantText checks the text of a result, and that it has the reason.
func wantText(t *testing.T, got memory.Result, reason memory.Reason, text string) {
	t.Helper()
	if got.Reason != reason || len(got.Content) != 1 || got.Content[0].Text != text {
		t.Errorf("got reason %d, %q\nwant reason %d, %q", got.Reason, got.Content, reason, text)
	}
}

// set changes settings of the namespace.
func set(t tester, m *memory.Memory, settings memory.Settings) {
	t.Helper()
	if _, err := m.UpdateSettings(t.Context(), namespace, memory.SettingsChange{Settings: settings}, ""); err != nil {
		t.Fatalf("update settings: %v", err)
	}
}

func TestFileQuota(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(4))})
	for name, size := range map[string]int{"a/1": 5000, "a/2": 10, "b": 5000, "c": 7} {
		must(t, m, memory.Create{Path: "/memories/" + name, FileText: strings.Repeat("x", size)})
	}
	const full = "Error: The memory is full: 4 of 4 files. Delete or merge files first. " +
		"Largest: /memories/a/1 (4.9K), /memories/b (4.9K), /memories/a/2 (10B)"
	wantText(t, do(t, m, memory.Create{Path: "/memories/d"}), memory.ReasonFileQuota, full)
	wantText(t, do(t, m, memory.Put{Path: "/memories/n/d"}), memory.ReasonFileQuota, full)
	// A file that is refused for its size alone is refused for that.
	wantText(t, do(t, m, memory.Put{Path: "/memories/d", Data: make([]byte, memory.MaxFileBytes+1)}),
		memory.ReasonFileTooLarge, "Error: File /memories/d exceeds the maximum size of 1.0M. "+
			"Shorten the content or split it into several files.")
	wantText(t, do(t, m, memory.Create{Path: "/memories/b"}), memory.ReasonCreatePathExists,
		"Error: File /memories/b already exists")

	batch, err := m.Batch(t.Context(), namespace, []memory.BatchCommand{
		{Command: memory.Delete{Path: "/memories/c"}},
		{Command: memory.Create{Path: "/memories/d"}},
		{Command: memory.Create{Path: "/memories/e"}},
	}, "id")
	if err != nil || batch.FailedIndex != 2 {
		t.Errorf("batch: got %+v, %v; want failed command 2", batch, err)
	}
	// The files are those that are there: the batch has changed nothing.
	wantText(t, batch.Failed, memory.ReasonFileQuota, full)

	// Whatever makes no file goes on, and so does what makes room.
	must(t, m, memory.Put{Path: "/memories/b", Data: []byte("longer")})
	must(t, m, memory.Insert{Path: "/memories/c", InsertText: "more"})
	must(t, m, memory.Rename{OldPath: "/memories/c", NewPath: "/memories/n/c"})
	set(t, m, memory.Settings{MaxFiles: new(int64(2))})
	wantText(t, do(t, m, memory.Create{Path: "/memories/d"}), memory.ReasonFileQuota,
		"Error: The memory is full: 4 of 2 files. Delete or merge files first. "+
			"Largest: /memories/a/1 (4.9K), /memories/n/c (12B), /memories/a/2 (10B)")
	must(t, m, memory.StrReplace{Path: "/memories/n/c", OldStr: "more", NewStr: "x"})
	must(t, m, memory.Delete{Path: "/memories/a"})
	must(t, m, memory.Delete{Path: "/memories/b"})
	must(t, m, memory.Create{Path: "/memories/d"})
	wantText(t, do(t, m, memory.Create{Path: "/memories/e"}), memory.ReasonFileQuota,
		"Error: The memory is full: 2 of 2 files. Delete or merge files first. "+
			"Largest: /memories/n/c (9B), /memories/d (0B)")
	set(t, m, memory.Settings{MaxFiles: new(int64(0))})
	must(t, m, memory.Create{Path: "/memories/e"})
}

func TestSizeQuota(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxTotalBytes: new(int64(2048))})
	wantText(t, do(t, m, memory.Create{Path: "/memories/a", FileText: strings.Repeat("x", 3000)}),
		memory.ReasonSizeQuota,
		"Error: The memory is full: 0B of 2.0K used, this change needs 2.9K more. Delete or shorten files first.")
	must(t, m, memory.Create{Path: "/memories/d/a", FileText: strings.Repeat("a\n", 750)})
	must(t, m, memory.Create{Path: "/memories/d/b", FileText: strings.Repeat("b", 547)})
	full := func(needs, largest string) string {
		return "Error: The memory is full: 2.0K of 2.0K used, this change needs " + needs +
			" more. Delete or shorten files first. Largest: " + largest
	}
	const largest = "/memories/d/a (1.5K), /memories/d/b (547B)"
	must(t, m, memory.Create{Path: "/memories/c", FileText: "x"}) // the last byte
	for _, cmd := range []memory.Command{
		memory.Create{Path: "/memories/d/e", FileText: "12"},
		memory.Put{Path: "/memories/c", Data: []byte("123")},
		memory.StrReplace{Path: "/memories/d/b", OldStr: strings.Repeat("b", 547), NewStr: strings.Repeat("c", 549)},
		memory.Insert{Path: "/memories/d/b", InsertText: "1"},
	} {
		wantText(t, do(t, m, cmd), memory.ReasonSizeQuota, full("2B", largest+", /memories/c (1B)"))
	}
	must(t, m, memory.Create{Path: "/memories/empty"})
	must(t, m, memory.Put{Path: "/memories/c", Data: []byte("2")})
	must(t, m, memory.StrReplace{Path: "/memories/d/b", OldStr: strings.Repeat("b", 547), NewStr: strings.Repeat("c", 547)})
	must(t, m, memory.Rename{OldPath: "/memories/d", NewPath: "/memories/e"})

	batch, err := m.Batch(t.Context(), namespace, []memory.BatchCommand{
		{Command: memory.Delete{Path: "/memories/c"}},
		{Command: memory.Create{Path: "/memories/d", FileText: "12"}},
	}, "")
	if err != nil || batch.FailedIndex != 1 {
		t.Errorf("batch: got %+v, %v; want failed command 1", batch, err)
	}
	wantText(t, batch.Failed, memory.ReasonSizeQuota,
		"Error: The memory is full: 2.0K of 2.0K used, this change needs 2B more. Delete or shorten files first. "+
			"Largest: /memories/e/a (1.5K), /memories/e/b (547B), /memories/c (1B)")

	set(t, m, memory.Settings{MaxTotalBytes: new(int64(10))})
	must(t, m, memory.StrReplace{Path: "/memories/e/b", OldStr: strings.Repeat("c", 547), NewStr: "x"})
	must(t, m, memory.Put{Path: "/memories/e/b", Data: []byte("y")})
	must(t, m, memory.Put{Path: "/memories/e/b"})
	must(t, m, memory.Delete{Path: "/memories/e/a"})
	must(t, m, memory.Put{Path: "/memories/e/b", Data: []byte("123456789")})
	if result := do(t, m, memory.Put{Path: "/memories/e/b", Data: []byte("1234567890")}); result.Reason != memory.ReasonSizeQuota {
		t.Errorf("got reason %d, want %d", result.Reason, memory.ReasonSizeQuota)
	}
}

// TestQuota_Ties has files of one size: the first of them by path are named, however deep they are.
func TestQuota_Ties(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(4))})
	for _, name := range []string{"x", "y", "z", "a/a"} {
		must(t, m, memory.Create{Path: "/memories/" + name})
	}
	wantText(t, do(t, m, memory.Create{Path: "/memories/b"}), memory.ReasonFileQuota,
		"Error: The memory is full: 4 of 4 files. Delete or merge files first. "+
			"Largest: /memories/a/a (0B), /memories/x (0B), /memories/y (0B)")
}

// TestQuota_FilesFirst has both quotas full.
func TestQuota_FilesFirst(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(1)), MaxTotalBytes: new(int64(1))})
	must(t, m, memory.Create{Path: "/memories/a", FileText: "1"})
	if got := do(t, m, memory.Create{Path: "/memories/b", FileText: "1"}).Reason; got != memory.ReasonFileQuota {
		t.Errorf("got reason %d, want %d", got, memory.ReasonFileQuota)
	}
}

// TestDirectoryQuota makes directories that stay when their files go.
func TestDirectoryQuota(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(1))})
	must(t, m, memory.Create{Path: "/memories/1/2/3/f"})
	must(t, m, memory.Rename{OldPath: "/memories/1/2/3/f", NewPath: "/memories/4/5/6/f"})
	must(t, m, memory.Rename{OldPath: "/memories/4/5/6/f", NewPath: "/memories/1/7/f"})
	const full = "Error: The memory is full: 7 of 8 directories. Delete or merge directories first."
	wantText(t, do(t, m, memory.Rename{OldPath: "/memories/1/7/f", NewPath: "/memories/8/9/f"}),
		memory.ReasonFileQuota, full)
	wantText(t, do(t, m, memory.Rename{OldPath: "/memories/1", NewPath: "/memories/8/9/10"}),
		memory.ReasonFileQuota, full)
	must(t, m, memory.Delete{Path: "/memories/1/7/f"})
	wantText(t, do(t, m, memory.Create{Path: "/memories/8/9/f"}), memory.ReasonFileQuota, full)
	must(t, m, memory.Create{Path: "/memories/1/7/8/f"})
	const last = "Error: The memory is full: 8 of 8 directories. Delete or merge directories first."
	wantText(t, do(t, m, memory.Rename{OldPath: "/memories/1/7/8/f", NewPath: "/memories/9/f"}),
		memory.ReasonFileQuota, last)
	must(t, m, memory.Rename{OldPath: "/memories/1/7/8/f", NewPath: "/memories/f"})
	must(t, m, memory.Rename{OldPath: "/memories/1/7/8", NewPath: "/memories/8"})
	must(t, m, memory.Delete{Path: "/memories/1/2"})
	must(t, m, memory.Rename{OldPath: "/memories/f", NewPath: "/memories/9/10/f"})

	set(t, m, memory.Settings{MaxFiles: new(int64(1 << 62))}) // eight times as many are more than a number holds
	must(t, m, memory.Create{Path: "/memories/11/12/f"})
	set(t, m, memory.Settings{MaxFiles: new(int64(0))})
	must(t, m, memory.Create{Path: "/memories/13/14/f"})
}

// TestQuota_Concurrent creates files at once: no more of them than there is room for.
func TestQuota_Concurrent(t *testing.T) {
	const room, writers, each = 20, 8, 10
	m := newMemory(t, memory.Settings{MaxFiles: new(int64(room))})
	var created atomic.Int64
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				path := fmt.Sprintf("/memories/%d/%d", w, i)
				result, err := m.Do(t.Context(), namespace, memory.Create{Path: path}, memory.Call{})
				if err != nil {
					t.Error(err)
				}
				if !result.IsError() {
					created.Add(1)
				}
			}
		})
	}
	writing.Wait()
	ns, err := m.Namespace(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	if created.Load() != room || ns.FileCount != room {
		t.Errorf("%d files were created and %d are there, want %d", created.Load(), ns.FileCount, room)
	}
}
