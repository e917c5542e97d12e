package agentkit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryserver "github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

const entryOne = "## Session one\n\nDone: this\n"

// Whatever the model has made of the progress log, an entry is written and nothing else is lost.
func TestProgressLog(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, m memory)
		want   map[string]string // what the files have; "" is a file that is not there
	}{
		{
			name:   "missing",
			change: func(*testing.T, memory) {},
			want:   map[string]string{ProgressPath: entryOne},
		},
		{
			name:   "another text",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath, "My own log.\r\n\u2028no end of line") },
			want:   map[string]string{ProgressPath: entryOne + "\nMy own log.\r\n\u2028no end of line"},
		},
		{
			name:   "empty",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath, "") },
			want:   map[string]string{ProgressPath: entryOne + "\n"},
		},
		{
			name: "renamed",
			change: func(t *testing.T, m memory) {
				m.create(t, ProgressPath, "old")
				m.rename(t, ProgressPath, "/memories/log.md")
			},
			want: map[string]string{ProgressPath: entryOne, "/memories/log.md": "old"},
		},
		{
			name:   "empty directory",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath+"/x", ""); m.delete(t, ProgressPath+"/x") },
			want:   map[string]string{ProgressPath: entryOne, "/memories/progress-1.md/x": ""},
		},
		{
			name: "directory, and names that are taken",
			change: func(t *testing.T, m memory) {
				m.create(t, ProgressPath+"/a/b.md", "b")
				m.create(t, "/memories/progress-1.md", "one")
				m.create(t, "/memories/progress-2.md/x", "two")
			},
			want: map[string]string{
				ProgressPath: entryOne, "/memories/progress-3.md/a/b.md": "b",
				"/memories/progress-1.md": "one", "/memories/progress-2.md/x": "two",
			},
		},
		{
			name:   "not text",
			change: func(t *testing.T, m memory) { m.put(t, ProgressPath, "\xff\x00log") },
			want:   map[string]string{ProgressPath: entryOne, "/memories/progress-1.md": "\xff\x00log"},
		},
		{
			name:   "full",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath, strings.Repeat("x", 4090)) },
			want:   map[string]string{ProgressPath: entryOne, "/memories/progress-1.md": strings.Repeat("x", 4090)},
		},
		{
			name:   "over the limit",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath, strings.Repeat("x", 4096)) },
			want:   map[string]string{ProgressPath: entryOne, "/memories/progress-1.md": strings.Repeat("x", 4096)},
		},
		{
			name:   "as full as it may be",
			change: func(t *testing.T, m memory) { m.create(t, ProgressPath, strings.Repeat("x", 4096-len(entryOne)-1)) },
			want: map[string]string{
				ProgressPath:              entryOne + "\n" + strings.Repeat("x", 4096-len(entryOne)-1),
				"/memories/progress-1.md": "",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(t, servertest.WithSettings(memoryserver.Settings{MaxFileBytes: new(int64(4096))}))
			s := m.resume(t, "one")
			tt.change(t, m)
			m.close(t, s, Outcome{Done: "this"})
			for path, want := range tt.want {
				m.checkFile(t, path, want)
			}
		})
	}
}

// An entry that no file takes is an error, and leaves everything as it was.
func TestProgressLog_EntryTooLarge(t *testing.T) {
	for _, log := range []string{"", "old\n"} {
		m := newMemory(t, servertest.WithSettings(memoryserver.Settings{MaxFileBytes: new(int64(4096))}))
		s := m.resume(t, "one")
		m.put(t, ProgressPath, log)
		before := m.namespaceRevision(t)
		err := s.Close(t.Context(), Outcome{Done: strings.Repeat("x", 4096)})
		checkErrorHas(t, err, `close session "one": Error: File /memories/progress.md exceeds the maximum size of 4.0K.`)
		if got := m.namespaceRevision(t); got != before {
			t.Errorf("got revision %d, want %d: nothing is to be written", got, before)
		}
		m.close(t, s, Outcome{Done: "this"})
		m.checkFile(t, ProgressPath, entryOne+"\n"+log)
	}
}

func TestProgressLog_Order(t *testing.T) {
	m := newMemory(t)
	for _, name := range []string{"one", "two", "three"} {
		m.close(t, m.resume(t, name), Outcome{Done: "x"})
	}
	var got []string
	for entry := range strings.SplitSeq(m.read(t, ProgressPath), "\n\n") {
		got = append(got, strings.TrimSpace(entry))
	}
	want := []string{"## Session three", "Done: x", "## Session two", "Done: x", "## Session one", "Done: x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
