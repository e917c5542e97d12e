package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

const (
	// queuedCalls is of how many calls the lines wait for the output. Those of more calls wait for room.
	queuedCalls = 4096
	// patience is how long lines may take until whoever wrote them goes on without them, and how long Close waits for
	// those that are queued.
	patience = time.Second
)

var (
	errLate = fmt.Errorf("the output does not take lines within %s, as if nobody reads it; they may still be written",
		patience)
	errFull = fmt.Errorf("the lines of %d calls wait for the output already", queuedCalls)
)

// Log is where the trail is written. It is made by Open and is safe for concurrent use. A nil Log writes nothing, and
// its methods succeed.
//
// An output can be stuck, such as a pipe that nobody reads. So one goroutine writes, and nobody else waits for the
// output longer than a moment.
type Log struct {
	path      string
	queue     chan queued
	closing   chan struct{} // closed by Close
	stopped   chan struct{} // closed when nothing more is written
	reopening sync.Mutex    // held by Reopen

	mu     sync.Mutex
	closed bool
	out    *output   // nil when Close has ended
	since  time.Time // when the write that is under way began; zero: there is none
}

// queued are the lines of a call that are to be written.
type queued struct {
	lines   [][]byte
	written *atomic.Int64 // how many of them are
	done    chan<- error  // takes the first error, or nil, when all were tried
}

// Open opens the file at path for appending, and makes it, for its owner alone, where there is none. The path "-" is
// stdout, which stays open after Close. Where the file ends within a line, as after a crash or on a full disk, the next
// line begins on a new one. A FIFO has to have a reader.
func Open(path string, stdout io.Writer) (*Log, error) {
	out := &output{w: stdout}
	if path != Stdout {
		var err error
		if out, err = openFile(path); err != nil {
			return nil, err
		}
	}
	l := &Log{
		path: path, queue: make(chan queued, queuedCalls),
		closing: make(chan struct{}), stopped: make(chan struct{}), out: out,
	}
	go l.run()
	return l, nil
}

// Write appends the lines of events, together, and returns how many of them are written. The error is that of the first
// one that is not. It is of these lines alone, as on a full disk: the next ones are tried anew.
//
// Write waits a second at most, and not at all while the output has been stuck for as long. What is not written by then
// is an error, and is queued: it is written when the output goes on. What the queue has had no room for is lost.
func (l *Log) Write(events ...Event) (n int, err error) {
	if l == nil {
		return len(events), nil
	}
	if n, err = l.write(events); err != nil {
		return n, fmt.Errorf("write audit log: %w", err)
	}
	return n, nil
}

func (l *Log) write(events []Event) (n int, err error) {
	lines := make([][]byte, len(events))
	for i, e := range events {
		if lines[i], err = e.line(); err != nil {
			return 0, err
		}
	}
	timer := time.NewTimer(l.patience())
	defer timer.Stop()
	var written atomic.Int64
	done := make(chan error, 1)
	if err := l.enqueue(queued{lines, &written, done}, timer.C); err != nil {
		return 0, err
	}
	select {
	case err = <-done:
	case <-timer.C:
		err = errLate
	case <-l.stopped:
		select {
		case err = <-done: // It was the last thing that was done.
		default:
			err = os.ErrClosed
		}
	}
	return int(written.Load()), err
}

// enqueue waits for room until late.
func (l *Log) enqueue(q queued, late <-chan time.Time) error {
	select {
	case <-l.closing:
		return os.ErrClosed
	default:
	}
	select {
	case l.queue <- q: // also where it is late, if there is room
		return nil
	default:
	}
	select {
	case l.queue <- q:
		return nil
	case <-l.closing:
		return os.ErrClosed
	case <-late:
		return errFull
	}
}

// patience returns how long a line may take: no time while the output is stuck.
func (l *Log) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.since.IsZero() && time.Since(l.since) >= patience {
		return 0
	}
	return patience
}

// run writes what is queued until Close, and then what is left.
func (l *Log) run() {
	defer close(l.stopped)
	for closing := false; !closing; {
		select {
		case q := <-l.queue:
			l.writeLines(q)
		case <-l.closing:
			closing = true
		}
	}
	for {
		select {
		case q := <-l.queue:
			l.writeLines(q)
		default:
			return
		}
	}
}

func (l *Log) writeLines(q queued) {
	var first error
	for _, line := range q.lines {
		if err := l.writeLine(line); err == nil {
			q.written.Add(1)
		} else if first == nil {
			first = err
		}
	}
	q.done <- first
}

// writeLine holds no lock while it writes. A file that was closed under its hands was replaced by Reopen.
func (l *Log) writeLine(line []byte) error {
	for {
		l.mu.Lock()
		out := l.out
		l.since = time.Now()
		l.mu.Unlock()
		if out == nil {
			return os.ErrClosed
		}
		err := out.write(line)
		l.mu.Lock()
		replaced := l.out != out
		l.since = time.Time{}
		l.mu.Unlock()
		if !replaced || !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
}

// Queued returns of how many calls the lines wait for the output.
func (l *Log) Queued() int { return len(l.queue) }

// Reopen opens the file anew by its path, for whoever has renamed it, as logrotate does. No line is lost meanwhile, and
// one that is stuck in a FIFO goes to what stands in its place. Where opening fails the trail goes on in the old file.
// It does nothing for standard output, and for a file that is still in its place.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.reopening.Lock()
	defer l.reopening.Unlock()
	old, err := l.output()
	if err != nil {
		return fmt.Errorf("reopen audit log: %w", err)
	}
	if old.file == nil {
		return nil
	}
	out, err := openFile(l.path)
	if err != nil {
		return err
	}
	if old.same(out) || !l.replace(old, out) {
		old = out
	}
	if err := old.close(); err != nil {
		return fmt.Errorf("close old audit log: %w", err)
	}
	return nil
}

// output returns the output until Close.
func (l *Log) output() (*output, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, os.ErrClosed
	}
	return l.out, nil
}

// replace puts an output in the place of another one, unless Close has ended that.
func (l *Log) replace(old, out *output) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != old {
		return false
	}
	l.out = out
	return true
}

// Close writes what is queued, for a second at most, and closes the file. What is left in the queue then is lost, of
// which whoever wrote it had an error. What is written later fails with os.ErrClosed.
func (l *Log) Close() error {
	if l == nil || !l.stop() {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.stopped:
	case <-timer.C:
	}
	l.mu.Lock()
	out := l.out
	l.out = nil
	l.mu.Unlock()
	if err := out.close(); err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}

// stop ends the queue, and tells whether it had not ended before.
func (l *Log) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	close(l.closing)
	return true
}
