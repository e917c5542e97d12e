package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// writer is an agent that changes a directory of its own with all commands and knows what must be in it. Every command
// must succeed: the client repeats it, across the death and the return of memoryd, until it is answered, and it must
// have happened once.
type writer struct {
	name      string
	namespace string
	client    *client.Client
	random    *rand.Rand
	files     map[string]string // what was answered: the text of every file, by path
	made      int               // files that were made, so that names are new
}

func newWriter(c *client.Client, number int) *writer {
	return &writer{
		name:      fmt.Sprintf("/memories/writer-%d", number),
		namespace: fmt.Sprintf("crash/%d", number%3),
		client:    c,
		random:    rand.New(rand.NewPCG(7, uint64(number))),
		files:     map[string]string{},
	}
}

// step executes a random command and notes what it did.
func (w *writer) step(t *testing.T) error {
	paths := slices.Sorted(maps.Keys(w.files))
	var input map[string]any
	next := maps.Clone(w.files)
	newPath := func() string {
		w.made++
		return fmt.Sprintf("%s/%d/file-%d", w.name, w.random.IntN(3), w.made)
	}
	choice := w.random.IntN(10)
	if len(paths) < 3 {
		choice = 0
	}
	var path string
	if len(paths) > 0 {
		path = paths[w.random.IntN(len(paths))]
	}
	switch {
	case choice < 4:
		path = newPath()
		next[path] = strings.Repeat(path+"\n", 1+w.random.IntN(2)*3000) // of one chunk or several
		input = map[string]any{"command": "create", "path": path, "file_text": next[path]}
	case choice < 6:
		line := fmt.Sprintf("inserted at %d", w.made)
		next[path] = line + "\n" + next[path]
		input = map[string]any{"command": "insert", "path": path, "insert_line": 0, "insert_text": line}
	case choice < 8:
		text := next[path]
		replaced := text + "\n" + fmt.Sprint(w.random.Int()) // the whole is surely unique
		next[path] = replaced
		input = map[string]any{"command": "str_replace", "path": path, "old_str": text, "new_str": replaced}
	case choice < 9:
		delete(next, path)
		input = map[string]any{"command": "delete", "path": path}
	default:
		to := newPath()
		next[to] = next[path]
		delete(next, path)
		input = map[string]any{"command": "rename", "old_path": path, "new_path": to}
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return err
	}
	if result := w.client.Handler(w.namespace).Handle(t.Context(), raw); result.IsError {
		return fmt.Errorf("%s %s: %.300s", input["command"], path, result.Text())
	}
	w.files = next
	return nil
}

// check compares what is there with what must be.
func (w *writer) check(t *testing.T) {
	t.Helper()
	got := map[string]string{}
	for token, more := "", true; more; more = token != "" {
		resp, err := w.client.List(t.Context(), &memoryv1.ListRequest{
			Namespace: w.namespace, Path: w.name, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEntries() {
			if e.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE {
				continue
			}
			var data bytes.Buffer
			_, err := w.client.Get(t.Context(), &memoryv1.GetRequest{Namespace: w.namespace, Path: e.GetPath()}, &data)
			if err != nil {
				t.Fatal(err)
			}
			got[e.GetPath()] = data.String()
		}
		token = resp.GetNextPageToken()
	}
	if diff := cmp.Diff(w.files, got); diff != "" {
		t.Errorf("%s (-answered +there)\n%.3000s", w.name, diff)
	}
}

// writers run until they are stopped.
type writers struct {
	all     []*writer
	reached chan struct{} // gets a value for every command that is answered
	stop    chan struct{}
	running sync.WaitGroup
}

func startWriters(t *testing.T, d *daemon, n int) *writers {
	t.Helper()
	ws := &writers{reached: make(chan struct{}), stop: make(chan struct{})}
	for number := range n {
		w := newWriter(d.dial(t), number)
		ws.all = append(ws.all, w)
		ws.running.Go(func() {
			for {
				if err := w.step(t); err != nil {
					t.Errorf("%s: %v", w.name, err)
					return
				}
				select {
				case ws.reached <- struct{}{}:
				case <-ws.stop:
					return
				}
			}
		})
	}
	return ws
}

// await waits for n more commands to be answered.
func (ws *writers) await(n int) {
	for range n {
		<-ws.reached
	}
}

// finish stops the writers and compares what is there with what was answered.
func (ws *writers) finish(t *testing.T) {
	t.Helper()
	close(ws.stop)
	ws.running.Wait()
	for _, w := range ws.all {
		w.check(t)
	}
}

// TestKill ends memoryd with SIGKILL in the middle of all commands, again and again, while its clients go on.
func TestKill(t *testing.T) {
	d := start(t)
	ws := startWriters(t, d, 8)
	rounds := 6
	if soak {
		rounds = 100
	}
	for round := range rounds {
		ws.await(20 + 35*(round%6))
		// The next answers are taken while memoryd dies, so that commands are under way then.
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			d.kill(t)
		}()
		for dead := false; !dead; {
			select {
			case <-ws.reached:
			case <-killed:
				dead = true
			}
		}
		d.serve(t)
	}
	ws.await(50)
	ws.finish(t)
}

// TestKillDuringBackup ends memoryd while backups are made and its clients go on. A backup that was completed can be
// restored, one that was not leaves no file, and nothing is left in the data directory.
func TestKillDuringBackup(t *testing.T) {
	d := start(t)
	ws := startWriters(t, d, 4)
	dir := t.TempDir()
	completed := 0
	for round := range 5 {
		ws.await(30)
		backup := filepath.Join(dir, fmt.Sprint(round))
		done := make(chan output, 1)
		go func() {
			// A rate at which none is completed before the kill, except in every other round.
			args := []string{"backup", backup}
			if round%2 == 1 {
				args = append(args, "--rate", "1KB/s")
			}
			out, err := d.tryCtl(t.Context(), nil, args...)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		var out output
		if round%2 == 0 {
			for waiting := true; waiting; {
				select {
				case <-ws.reached:
				case out = <-done:
					waiting = false
				}
			}
			d.kill(t)
		} else {
			ws.await(20)
			d.kill(t)
			out = <-done
		}
		d.serve(t)
		if _, err := os.Stat(backup); (err == nil) != (out.status == 0) {
			t.Errorf("round %d: status %d, and the file: %v", round, out.status, err)
		}
		if out.status == 0 {
			completed++
			if out, err := exec.Command(binary("memoryd"), "verify", backup).CombinedOutput(); err != nil {
				t.Errorf("round %d: verify: %v %s", round, err, out)
			}
		}
	}
	ws.finish(t)
	if completed != 3 {
		t.Errorf("%d backups were completed, want 3", completed)
	}
	entries, err := os.ReadDir(d.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "memoryd.db" && e.Name() != "LOCK" {
			t.Errorf("left in the data directory: %s", e.Name())
		}
	}
}
