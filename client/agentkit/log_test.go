package agentkit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
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

// What the package itself has to say is shortened until it fits into a file, and keeps nobody out.
func TestProgressLog_EntriesTooLarge(t *testing.T) {
	m := newMemory(t, servertest.WithSettings(memoryserver.Settings{MaxFileBytes: new(int64(4096))}))
	m.create(t, ProgressPath, "old\n")
	one := m.resume(t, "one")
	for i := range maxChangedPaths {
		m.create(t, fmt.Sprintf("/memories/%s/%d.md", strings.Repeat("d", 230), i), "x")
	}
	m.resume(t, "two", WithBudget(500))
	noted := "## Session one: not closed\n\nIt was cut off, or still ran, when session two began. " +
		"Memory files changed since it began: 20.\n\nold\n"
	m.checkFile(t, ProgressPath, noted)
	m.close(t, one, Outcome{})
	// The log is a file that has changed since, by now.
	m.checkFile(t, ProgressPath, "## Session one\n\nDone: not said. Memory files changed since it began: 21.\n\n"+noted)
}

// Sessions that were not closed are noted as many at once as there is room for.
func TestProgressLog_ManyOpen(t *testing.T) {
	const sessions = 10
	name := func(n int) string { return fmt.Sprintf("s%02d", n) + strings.Repeat("x", 100) }
	for limit, atOnce := range map[int64]int{1 << 20: 10, 4000: 10, 3000: 6, 400: 1, 320: 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			m := newMemory(t, servertest.WithSettings(memoryserver.Settings{MaxFileBytes: new(limit)}))
			for i := range sessions {
				r := record{Session: name(i)}
				m.create(t, recordPath(r.Session), string(r.encode()))
			}
			m.resume(t, name(sessions), WithPinned()) // whose record is small
			log := m.read(t, ProgressPath)
			if got := strings.Count(log, ": not closed\n"); got != atOnce {
				t.Errorf("got %d sessions that were not closed, want %d:\n%s", got, atOnce, log)
			}
			if got := len(m.open(t)); got != sessions-atOnce+1 {
				t.Errorf("got %d open sessions, want %d", got, sessions-atOnce+1)
			}
		})
	}
}

func TestProgressLog_Again(t *testing.T) {
	l := &progressLog{sessions: 2}
	tooLarge := &refusal{reason: memoryv1.Reason_REASON_BATCH_TOO_LARGE}
	var sessions []int
	for l.again(tooLarge) {
		sessions = append(sessions, l.sessions)
	}
	if diff := cmp.Diff([]int{2, 1, 0}, sessions); diff != "" || !l.brief {
		t.Errorf("sessions at once, brief %t (-want +got):\n%s", l.brief, diff)
	}
}

func TestProgressLog_AgainUnmovable(t *testing.T) {
	for _, reason := range []memoryv1.Reason{
		memoryv1.Reason_REASON_DIRECTORY_TOO_LARGE, memoryv1.Reason_REASON_PATH_TOO_LONG,
	} {
		l := &progressLog{}
		if !l.again(&refusal{reason: reason}) || !l.stuck || l.again(&refusal{reason: reason}) {
			t.Errorf("%v: got stuck %t, want another plan, and only one", reason, l.stuck)
		}
	}
}

// A directory that cannot be moved stays where it is, and the entry goes beside it.
func TestProgressLog_UnmovableDirectory(t *testing.T) {
	m := newMemory(t)
	deep := ProgressPath + strings.Repeat("/"+strings.Repeat("d", 249), 4)
	deep += "/" + strings.Repeat("d", 1024-len(deep)-1) // as long as a path may be
	m.create(t, deep, "x")
	m.close(t, m.resume(t, "one"), Outcome{Done: "this"})
	m.checkFile(t, deep, "x")
	m.checkFile(t, "/memories/progress-1.md", entryOne)

	m.resume(t, "two")
	m.resume(t, "three")
	if got := m.read(t, "/memories/progress-2.md"); !strings.HasPrefix(got, "## Session two: not closed\n") {
		t.Errorf("got %q, want that two was not closed", got)
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
