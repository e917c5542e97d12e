package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func numbered(from, to int) []Event {
	var events []Event
	for i := from; i < to; i++ {
		events = append(events, Event{Path: fmt.Sprint(i)})
	}
	return events
}

// checkWrite writes events, and checks what comes of it and how long that takes.
func checkWrite(t *testing.T, l *Log, events []Event, n int, want error, took time.Duration) {
	t.Helper()
	began := time.Now()
	got, err := l.Write(events...)
	if got != n || !errors.Is(err, want) {
		t.Errorf("got %d, %v; want %d, %v", got, err, n, want)
	}
	if got := time.Since(began); got != took {
		t.Errorf("it took %s, want %s", got, took)
	}
}

// An output that nobody reads costs the first call a second and those after it nothing, until it goes on.
func TestLog_Stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // It holds nothing: a write waits for its reader.
		l := openTo(t, "-", w)
		in := bufio.NewScanner(r)

		checkWrite(t, l, numbered(0, 1), 0, errLate, time.Second)
		checkWrite(t, l, numbered(1, 2), 0, errLate, 0)
		checkWrite(t, l, numbered(2, 9), 0, errLate, 0)
		const all = 9 + queuedCalls - 2 // of three calls, one is in the hands of the writer
		for i := 9; i < all; i++ {
			checkWrite(t, l, numbered(i, i+1), 0, errLate, 0)
		}
		checkWrite(t, l, numbered(all, all+3), 0, errFull, 0)
		if err := l.Reopen(); err != nil {
			t.Error(err)
		}

		var text strings.Builder
		for range all {
			if !in.Scan() {
				t.Fatal(in.Err())
			}
			text.WriteString(in.Text() + "\n")
		}
		var want []string
		for _, e := range numbered(0, all) {
			want = append(want, e.Path)
		}
		checkPaths(t, pathsOf(text.String()), want...)

		go in.Scan()
		checkWrite(t, l, numbered(0, 1), 1, nil, 0)
	})
}

// A call waits for room as long as it would for its lines: an output that is slow loses none.
func TestLog_WaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := openTo(t, "-", w)
		var calls sync.WaitGroup
		for i := range queuedCalls + 100 {
			calls.Go(func() {
				if n, err := l.Write(numbered(i, i+1)...); n != 1 || err != nil {
					t.Errorf("got %d, %v; want the line written", n, err)
				}
			})
		}
		synctest.Wait() // All of them wait.
		in := bufio.NewScanner(r)
		for range queuedCalls + 100 {
			time.Sleep(time.Millisecond / 8) // half a second in all
			if !in.Scan() {
				t.Fatal(in.Err())
			}
		}
		calls.Wait()
	})
}

// The lines of one call have a second together.
func TestLog_SlowOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := openTo(t, "-", w)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for in := bufio.NewReader(r); ; {
				time.Sleep(400 * time.Millisecond)
				if _, err := in.ReadSlice('\n'); err != nil {
					return
				}
			}
		}()
		checkWrite(t, l, numbered(0, 5), 2, errLate, time.Second)
		time.Sleep(time.Minute)
		checkWrite(t, l, numbered(0, 1), 1, nil, 0) // The reader sleeps no longer than it has by now.
		_ = w.Close()                               // It never fails.
		<-done
	})
}

// The end of the service waits a second for an output that is stuck, and what is left is not written afterwards.
func TestLog_CloseStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := openTo(t, "-", w)
		checkWrite(t, l, numbered(0, 3), 0, errLate, time.Second)
		began := time.Now()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("close took %s, want 1s", got)
		}
		checkWrite(t, l, numbered(0, 1), 0, os.ErrClosed, 0)
		go func() {
			<-l.stopped
			_ = w.Close() // It never fails.
		}()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		checkPaths(t, pathsOf(string(text)), "0")
	})
}

// What is queued when the service ends is written.
func TestLog_CloseFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := openTo(t, "-", w)
		checkWrite(t, l, numbered(0, 3), 0, errLate, time.Second)
		text := make(chan []byte)
		go func() {
			got, _ := io.ReadAll(r)
			text <- got
		}()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		_ = w.Close() // It never fails.
		checkPaths(t, pathsOf(string(<-text)), "0", "1", "2")
	})
}

// mkfifo makes a FIFO, opened for reading unless that is left to nobody.
func mkfifo(t *testing.T) (path string, reader *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() }) // A test may have closed it.
	return path, reader
}

// fill fills a FIFO with a line.
func fill(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for part := make([]byte, 4096); ; {
		if _, err := syscall.Write(fd, part); errors.Is(err, syscall.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Close(fd); err != nil {
		t.Fatal(err)
	}
}

// enqueue queues a line, and returns when the writer has it.
func enqueue(t *testing.T, l *Log, path string) <-chan error {
	t.Helper()
	line, err := Event{Path: path}.line()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	if err := l.enqueue(queued{[][]byte{line}, new(atomic.Int64), done}, nil); err != nil {
		t.Fatal(err)
	}
	for {
		l.mu.Lock()
		begun := !l.since.IsZero()
		l.mu.Unlock()
		if begun {
			return done
		}
		runtime.Gosched()
	}
}

// The service is no reader of the FIFO that it writes.
func TestOpen_FIFO(t *testing.T) {
	path, reader := mkfifo(t)
	l := open(t, path)
	write(t, l, "a")
	text := make([]byte, 1024)
	n, err := reader.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	checkPaths(t, pathsOf(string(text[:n])), "a")

	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Write(Event{}); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without a reader: got %d, %v; want 0, %v", n, err, syscall.EPIPE)
	}
	want := "open audit log: open " + path + ": it is a FIFO that nobody reads, or a socket"
	if other, err := Open(path, io.Discard); err == nil || err.Error() != want {
		_ = other.Close()
		t.Errorf("without a reader: got %v, want %s", err, want)
	}
}

// SIGHUP after a FIFO was replaced frees the line that is stuck in it.
func TestLog_ReopenStuckFIFO(t *testing.T) {
	path, _ := mkfifo(t)
	l := open(t, path)
	fill(t, path)
	done := enqueue(t, l, "a")

	out := l.out
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	if l.out != out {
		t.Error("a FIFO that is still in its place was opened anew, and could begin with the rest of a line")
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	write(t, l, "b")
	checkPaths(t, paths(t, path), "a", "b")
}

// A FIFO that nobody reads holds nothing up at the end.
func TestLog_CloseStuckFIFO(t *testing.T) {
	path, _ := mkfifo(t)
	l := open(t, path)
	fill(t, path)
	done := enqueue(t, l, "a")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
	<-l.stopped
}
