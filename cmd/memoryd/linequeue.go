package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

const (
	// queuedLines is how many lines wait for whoever reads the log. More are dropped.
	queuedLines = 1024
	// flushTimeout is how long the end of the process waits for the lines that are queued.
	flushTimeout = time.Second
)

// lineQueue is a writer of lines that never waits for whoever reads them: a log that is not read must stop neither
// calls nor the service. Lines go through a queue to the writer behind it, and are dropped where that is full.
type lineQueue struct {
	out     io.Writer
	dropped func(lines int64) // tells out how many lines were dropped

	lines chan []byte
	lost  atomic.Int64 // lines dropped that out was not told of
	stop  chan struct{}
	done  chan struct{} // closed when nothing more is written
}

func newLineQueue(out io.Writer, dropped func(lines int64)) *lineQueue {
	q := &lineQueue{
		out: out, dropped: dropped,
		lines: make(chan []byte, queuedLines), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go q.run()
	return q
}

// Write implements io.Writer. It takes one line, or several that belong together.
func (q *lineQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.lost.Add(1)
	}
	return len(line), nil
}

func (q *lineQueue) run() {
	defer close(q.done)
	for {
		select {
		case line := <-q.lines:
			q.write(line)
		case <-q.stop:
			for {
				select {
				case line := <-q.lines:
					q.write(line)
				default:
					return
				}
			}
		}
	}
}

func (q *lineQueue) write(line []byte) {
	_, _ = q.out.Write(line) // There is nowhere to tell that nobody reads.
	if lost := q.lost.Swap(0); lost > 0 {
		q.dropped(lost)
	}
}

// close writes what is queued, for as long as the timeout, and ends the queue. What is written afterwards is lost.
func (q *lineQueue) close(timeout time.Duration) {
	close(q.stop)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	}
}
