//go:build unix

package boltkv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func init() { children["limited"] = childLimited }

// limitEnv is the most bytes that a file of the child may have.
const limitEnv = "BOLTKV_TEST_LIMIT"

// childLimited opens a store where files cannot become large, as on a disk that is full.
func childLimited(dir string) int {
	var limit uint64
	if _, err := fmt.Sscan(os.Getenv(limitEnv), &limit); err != nil {
		return 2
	}
	signal.Ignore(syscall.SIGXFSZ)
	rlimit := syscall.Rlimit{Cur: limit, Max: limit}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &rlimit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	store, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	_ = store.Close()
	return 0
}

// A first start that finds the disk full leaves nothing that the next one would stumble over.
func TestCreate_Full(t *testing.T) {
	for _, limit := range []int{0, 100, 10_000, 30_000, 4*pageSize + 10, 10 * pageSize} {
		t.Run(fmt.Sprintf("%d bytes", limit), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], dir)
			cmd.Env = append(os.Environ(), childEnv+"=limited", fmt.Sprintf("%s=%d", limitEnv, limit))
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "file too large") {
				t.Fatalf("child: got %q, error %v, want that it cannot write", out, err)
			}
			if diff := cmp.Diff([]string{}, fileNames(t, dir)); diff != "" {
				t.Errorf("files: difference (-want +got):\n%s", diff)
			}
			mustPut(t, openTest(t, Options{Dir: dir}), "a", "key", "value")
		})
	}
}

// Nobody reads from the pipe, so that whoever opens it to write waits.
func TestOpen_LockIsPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, lockName), 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *Store, 1)
	go func() {
		store, err := Open(context.Background(), Options{Dir: dir})
		if err != nil {
			t.Errorf("Open: %v", err)
		}
		opened <- store
	}()
	select {
	case store := <-opened:
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Open waits for a reader of LOCK")
	}

	// Whoever finds it in use does not wait for a writer either.
	holder := openTest(t, Options{Dir: dir})
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, lockName), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := holder.inUse().PID, 0; got != want {
		t.Errorf("process of the holder: got %d, want %d", got, want)
	}
}
