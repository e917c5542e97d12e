package boltkv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// child is a process that runs one of children.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
}

func startChild(t *testing.T, name, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // Fails where it ended, as it should have.
		_ = cmd.Wait()
	})
	return &child{cmd: cmd, stdin: stdin, stdout: bufio.NewScanner(stdout)}
}

// line returns the next line that the child writes, "" where it ended.
func (c *child) line() string {
	c.stdout.Scan()
	return c.stdout.Text()
}

const holdAddress = "unix:///run/memoryd.sock"

// childHold holds the store until its standard input ends.
func childHold(dir string) int {
	store, err := Open(context.Background(), Options{Dir: dir, Address: holdAddress})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "holding")
	_, err = io.Copy(io.Discard, os.Stdin)
	if err := errors.Join(err, store.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// wantInUse checks that nobody can open the store, and that the error names the holder.
func wantInUse(t *testing.T, dir string, pid int) {
	t.Helper()
	for _, readOnly := range []bool{false, true} {
		began := time.Now()
		_, err := Open(t.Context(), Options{Dir: dir, ReadOnly: readOnly})
		if took, most := time.Since(began), 2*time.Second; took > most {
			t.Errorf("Open with ReadOnly %v: took %v, want at most %v", readOnly, took, most)
		}
		var inUse *InUseError
		if !errors.As(err, &inUse) {
			t.Fatalf("Open with ReadOnly %v: got error %v, want an InUseError", readOnly, err)
		}
		if want := (InUseError{Dir: dir, PID: pid, Address: holdAddress}); *inUse != want {
			t.Errorf("Open with ReadOnly %v: got %+v, want %+v", readOnly, *inUse, want)
		}
		for _, text := range []string{dir, strconv.Itoa(pid), holdAddress} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("Open with ReadOnly %v: got error %q, want one with %q", readOnly, err, text)
			}
		}
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	holder := startChild(t, "hold", dir)
	if got, want := holder.line(), "holding"; got != want {
		t.Fatalf("child: got %q, want %q", got, want)
	}
	wantInUse(t, dir, holder.cmd.Process.Pid)
	if err := holder.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := holder.cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LOCK after a clean stop: got error %v, want it to be gone", err)
	}
	openTest(t, Options{Dir: dir})
}

func TestInUse_HolderKilled(t *testing.T) {
	dir := t.TempDir()
	holder := startChild(t, "hold", dir)
	if got, want := holder.line(), "holding"; got != want {
		t.Fatalf("child: got %q, want %q", got, want)
	}
	if err := holder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.cmd.Wait() // It was killed.
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		t.Errorf("LOCK after the holder was killed: %v", err)
	}
	checkClosed(t, dir)

	openTest(t, Options{Dir: dir, Address: "127.0.0.1:7711"})
	data, err := os.ReadFile(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("{\"pid\":%d,\"address\":\"127.0.0.1:7711\"}\n", os.Getpid())
	if got := string(data); got != want {
		t.Errorf("LOCK of the next holder: got %q, want %q", got, want)
	}
}

const (
	crashWriters = 4
	crashRounds  = 8
)

// crashWrite is one update of the child that gets killed: the number of a writer's last write, and that write as a
// record and as contents, together.
func crashWrite(tx kv.Tx, n int) error {
	key := fmt.Sprintf("%08d", n)
	err := errors.Join(
		tx.Put([]byte("last"), []byte(key)),
		tx.Put([]byte(key), []byte("record "+key)),
		tx.Put([]byte("\xff"+key), crashContents(key)),
	)
	if n >= 100 { // So that there are pages to use again.
		old := fmt.Sprintf("%08d", n-100)
		err = errors.Join(err, tx.Delete([]byte(old)), tx.Delete([]byte("\xff"+old)))
	}
	return err
}

func crashContents(key string) []byte { return []byte(strings.Repeat(key, 1+len(key)*50)) }

func crashScope(writer int) string { return fmt.Sprintf("writer-%d", writer) }

// lastWrite returns the number of the last write of a scope, -1 where there is none.
func lastWrite(r kv.Reader) (int, error) {
	values, err := r.Get([]byte("last"))
	if err != nil || values[0] == nil {
		return -1, err
	}
	return strconv.Atoi(string(values[0]))
}

// childWrite writes until it is killed, and acknowledges every write with a line: writer and number.
func childWrite(dir string) int {
	store, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	for writer := range crashWriters {
		wg.Go(func() {
			for {
				var n int
				err := store.Update(context.Background(), crashScope(writer), func(tx kv.Tx) error {
					last, err := lastWrite(tx)
					if err != nil {
						return err
					}
					n = last + 1
					return crashWrite(tx, n)
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				fmt.Fprintf(os.Stdout, "%d %d\n", writer, n) // One write to a pipe: a line is never torn.
			}
		})
	}
	wg.Wait() // Only where updates failed.
	return 1
}

// A process that is killed at any moment loses nothing that it acknowledged, and a half of nothing.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	var acknowledged [crashWriters]int
	for i := range acknowledged {
		acknowledged[i] = -1
	}
	for round := range crashRounds {
		child := startChild(t, "write", dir)
		killAfter := 1 + round*round*7 // acknowledged writes; the moment within a commit is up to chance
		for lines := 0; ; lines++ {
			line := child.line()
			if line == "" {
				break
			}
			var writer, n int
			if _, err := fmt.Sscanf(line, "%d %d", &writer, &n); err != nil {
				t.Fatalf("child: got line %q: %v", line, err)
			}
			acknowledged[writer] = n
			if lines == killAfter {
				if err := child.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.cmd.Wait() // It was killed.
		checkClosed(t, dir)
		if round%2 == 0 {
			continue // The next child opens what the kill left, not what a clean stop made of it.
		}
		store := openTest(t, Options{Dir: dir})
		for writer, n := range acknowledged {
			checkCrashed(t, store, writer, n)
		}
		if err := store.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

// checkCrashed checks that a writer's scope has all writes up to the acknowledged one, and only whole ones.
func checkCrashed(t *testing.T, store kv.Store, writer, acknowledged int) {
	t.Helper()
	err := store.View(t.Context(), crashScope(writer), func(r kv.Reader) error {
		last, err := lastWrite(r)
		if err != nil {
			return err
		}
		if last < acknowledged {
			t.Errorf("writer %d: got last write %d, want at least %d", writer, last, acknowledged)
		}
		want := []string{}
		for n := max(0, last-99); n <= last; n++ {
			want = append(want, fmt.Sprintf("%08d", n))
		}
		for prefix, value := range map[string]func(key string) string{
			"0":     func(key string) string { return "record " + key },
			"\xff0": func(key string) string { return string(crashContents(key)) },
		} {
			got := 0
			err := r.Scan(kv.ScanOptions{Prefix: []byte(prefix)}, func(key, v []byte) error {
				name := strings.TrimPrefix(string(key), "\xff")
				if got >= len(want) || name != want[got] || string(v) != value(name) {
					return fmt.Errorf("key %q is not the write that is expected", key)
				}
				got++
				return nil
			})
			if err != nil {
				return err
			}
			if got != len(want) {
				t.Errorf("writer %d: got %d writes with prefix %q, want %d", writer, got, prefix, len(want))
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("writer %d: %v", writer, err)
	}
}
