package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLineQueue(t *testing.T) {
	var out strings.Builder
	q := newLineQueue(&out, func(n int64) { t.Errorf("%d lines were dropped", n) })
	line := []byte("a\n")
	for range 3 {
		if n, err := q.Write(line); n != len(line) || err != nil {
			t.Errorf("got %d, %v; want %d, nil", n, err, len(line))
		}
	}
	line[0] = 'b' // The queue has copies.
	q.close(time.Minute)
	if got, want := out.String(), "a\na\na\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLineQueue_DropsWhatIsNotRead(t *testing.T) {
	r, w := io.Pipe() // It holds nothing: a write waits for its reader.
	var q *lineQueue
	q = newLineQueue(w, func(n int64) { _, _ = fmt.Fprintf(q.out, "dropped %d\n", n) })
	// One line is in the hands of the writer, or still in the queue; whichever, a multiple of what fits is too much.
	const lines = 3 * queuedLines
	for i := range lines {
		if _, err := fmt.Fprintln(q, i); err != nil {
			t.Fatal(err)
		}
	}
	lost := q.lost.Load()
	if lost < lines-queuedLines-1 || lost > lines-queuedLines {
		t.Errorf("dropped %d of %d lines, want all but the %d that are queued", lost, lines, queuedLines)
	}
	go func() {
		q.close(time.Minute)
		_ = w.Close() // It never fails.
	}()
	var got []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		got = append(got, scanner.Text())
	}
	if want := fmt.Sprintf("dropped %d", lost); len(got) < 2 || got[0] != "0" || got[1] != want {
		t.Errorf("got %q..., want 0 and then %q", got[:min(2, len(got))], want)
	}
	if got, want := int64(len(got)), lines-lost+1; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
}

func TestLineQueue_CloseIsBounded(t *testing.T) {
	r, w := io.Pipe()
	q := newLineQueue(w, func(int64) {})
	_, _ = fmt.Fprintln(q, "nobody reads this")
	q.close(time.Millisecond) // It returns.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	<-q.done
}

func TestLineQueue_ClosedReader(t *testing.T) {
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	q := newLineQueue(w, func(int64) {})
	if _, err := fmt.Fprintln(q, "lost"); err != nil {
		t.Errorf("got %v, want nil: a line that is lost is no reason to fail", err)
	}
	q.close(time.Minute)
}

// TestMain_LogIsClosed runs a process whose log nobody will ever read again, which raises SIGPIPE.
func TestMain_LogIsClosed(t *testing.T) {
	t.Chdir(t.TempDir())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), os.Args[0], "--listen=unix:m.sock", "--http=", "--data=data",
		"--log-level=debug")
	daemon.Env = append(os.Environ(), asMemoryd+"=1")
	daemon.Stderr = w
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	create(t, "unix:m.sock")
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("got %v, want a clean stop", err)
	}
}

// TestServe_LogIsNotRead stops a service whose log is a pipe that is full.
func TestServe_LogIsNotRead(t *testing.T) {
	t.Chdir(t.TempDir())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	raw := int(w.Fd())
	if err := syscall.SetNonblock(raw, true); err != nil {
		t.Fatal(err)
	}
	for full := make([]byte, 4096); ; {
		if _, err := syscall.Write(raw, full); errors.Is(err, syscall.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.SetNonblock(raw, false); err != nil { // As it is for a daemon.
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	args := []string{"--listen=unix:m.sock", "--http=", "--data=" + filepath.Join(t.TempDir(), "data"), "--log-level=debug"}
	go func() { done <- run(ctx, args, environment(nil), variables(nil), io.Discard, w) }()
	create(t, "unix:m.sock") // It logs, and it waits until memoryd listens.
	cancel()
	if status := <-done; status != exitOK {
		t.Errorf("got status %d, want %d", status, exitOK)
	}
	// Let the writer that is left behind end.
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}
