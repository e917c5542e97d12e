package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func open(t *testing.T, path string) *Log {
	t.Helper()
	return openTo(t, path, io.Discard)
}

func openTo(t *testing.T, path string, stdout io.Writer) *Log {
	t.Helper()
	l, err := Open(path, stdout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func write(t *testing.T, l *Log, path string) {
	t.Helper()
	if n, err := l.Write(Event{Path: path}); n != 1 || err != nil {
		t.Fatalf("got %d, %v; want 1, nil", n, err)
	}
}

// paths returns the paths of the lines of a file, which must all be whole; those that are not are as they are.
func paths(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return pathsOf(string(text))
}

func pathsOf(text string) []string {
	var got []string
	for line := range strings.Lines(text) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			e.Path = line
		}
		got = append(got, e.Path)
	}
	return got
}

func checkPaths(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got the lines %q, want %q", got, want)
	}
}

func TestLog_Appends(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	for _, path := range []string{"a", "b"} {
		l := open(t, file)
		write(t, l, path)
		write(t, l, path+path)
	}
	checkPaths(t, paths(t, file), "a", "aa", "b", "bb")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %o, want 600", got)
	}
}

func TestLog_Stdout(t *testing.T) {
	var stdout bytes.Buffer
	l, err := Open("-", &stdout)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l, "a")
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	write(t, l, "b")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	checkPaths(t, pathsOf(stdout.String()), "a", "b")
}

func TestOpen_Fails(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "audit.log"), ""} {
		if l, err := Open(path, io.Discard); err == nil {
			_ = l.Close()
			t.Errorf("Open(%q) succeeded", path)
		}
	}
}

// A file that a crash has left within a line.
func TestOpen_TornFile(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		want         []string
	}{
		{"empty", "", []string{"a", "b"}},
		{"whole", "{\"path\":\"x\"}\n", []string{"x", "a", "b"}},
		{"torn", "{\"path\":\"x\"}\n{\"pa", []string{"x", "{\"pa\n", "a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			if err := os.WriteFile(file, []byte(tt.before), 0o600); err != nil {
				t.Fatal(err)
			}
			l := open(t, file)
			write(t, l, "a")
			write(t, l, "b")
			checkPaths(t, paths(t, file), tt.want...)
		})
	}
}

func TestLog_Concurrent(t *testing.T) {
	const writers, each = 8, 200
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, file)
	var running sync.WaitGroup
	var want []string
	for i := range writers {
		path := strings.Repeat(fmt.Sprint(i), 1000)
		for range each {
			want = append(want, path)
		}
		running.Go(func() {
			for n := range each {
				if _, err := l.Write(Event{Path: path}); err != nil {
					t.Error(err)
				}
				if n%50 == 0 {
					if err := l.Reopen(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	running.Wait()
	got := paths(t, file)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %d lines, want %d whole ones, as they were written", len(got), len(want))
	}
}

func TestLog_Reopen(t *testing.T) {
	dir := t.TempDir()
	file, rotated := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1")
	l := open(t, file)
	write(t, l, "a")
	if err := os.Rename(file, rotated); err != nil {
		t.Fatal(err)
	}
	write(t, l, "b")
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(t, l, "c")
	checkPaths(t, paths(t, rotated), "a", "b")
	checkPaths(t, paths(t, file), "c")
}

// Whether a file ends within a line is nothing that another one has of it.
func TestLog_ReopenTorn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	l := open(t, file)
	for _, step := range []struct {
		torn   bool // the old file
		before string
		want   []string
	}{
		{true, "", []string{"a"}},
		{false, "{\"pa", []string{"{\"pa\n", "a"}},
	} {
		l.out.torn = step.torn
		if err := os.Rename(file, filepath.Join(dir, "audit.log.1")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(step.before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		write(t, l, "a")
		checkPaths(t, paths(t, file), step.want...)
	}
}

// Where the file cannot be opened anew, the trail goes on in the old one.
func TestLog_ReopenFails(t *testing.T) {
	dir := t.TempDir()
	file, rotated := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1")
	l := open(t, file)
	if err := os.Rename(file, rotated); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a directory was opened as the file")
	}
	write(t, l, "a")
	checkPaths(t, paths(t, rotated), "a")
}

func TestLog_FullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	if err := os.Symlink(full, file); err != nil {
		t.Fatal(err)
	}
	l := open(t, file)
	for range 2 {
		if _, err := l.Write(Event{Path: "lost"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want %v", err, syscall.ENOSPC)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(t, l, "a")
	checkPaths(t, paths(t, file), "a")
}

// limited takes so many bytes of the next write, and everything afterwards.
type limited struct {
	bytes.Buffer
	room   int
	silent bool // it breaks the rule of io.Writer to say why it took less
}

func (w *limited) Write(p []byte) (int, error) {
	if w.room < 0 || w.room >= len(p) {
		w.room = -1
		return w.Buffer.Write(p)
	}
	n, _ := w.Buffer.Write(p[:w.room])
	w.room = -1
	if w.silent {
		return n, nil
	}
	return n, syscall.ENOSPC
}

// A line of which a part was written is ended before the next one.
func TestLog_PartOfALine(t *testing.T) {
	whole, err := Event{Path: "a"}.line()
	if err != nil {
		t.Fatal(err)
	}
	for _, silent := range []bool{false, true} {
		for room := range whole {
			out := &limited{room: room, silent: silent}
			l := openTo(t, "-", out)
			if _, err := l.Write(Event{Path: "a"}); err == nil {
				t.Errorf("room for %d bytes: no error", room)
			}
			write(t, l, "b")
			write(t, l, "c")
			want := []string{"b", "c"}
			if room == len(whole)-1 {
				want = []string{"a", "b", "c"} // all but the newline had come
			} else if room > 0 {
				want = []string{string(whole[:room]) + "\n", "b", "c"}
			}
			checkPaths(t, pathsOf(out.String()), want...)
		}
	}
}

// The newline that ends the torn line may be all that there is room for.
func TestLog_RoomForTheNewline(t *testing.T) {
	out := &limited{room: 3}
	l := openTo(t, "-", out)
	for _, room := range []int{3, 0, 1} {
		out.room = room
		if _, err := l.Write(Event{Path: "lost"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d bytes: got %v, want %v", room, err, syscall.ENOSPC)
		}
	}
	write(t, l, "a")
	checkPaths(t, pathsOf(out.String()), "{\"t\n", "a")
}

func TestLog_Closed(t *testing.T) {
	for _, path := range []string{"-", filepath.Join(t.TempDir(), "audit.log")} {
		l, err := Open(path, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("%s: close: %v", path, err)
			}
		}
		if _, err := l.Write(Event{}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: write: got %v, want %v", path, err, os.ErrClosed)
		}
		if err := l.Reopen(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: reopen: got %v, want %v", path, err, os.ErrClosed)
		}
	}
}

func TestLog_Nil(t *testing.T) {
	var l *Log
	if n, err := l.Write(Event{}, Event{}); n != 2 || err != nil {
		t.Errorf("got %d, %v; want 2, nil", n, err)
	}
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}
