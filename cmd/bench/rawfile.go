package main

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	rawBytes     = 64 << 20 // of the file, over which it is written again and again
	rawMetaBytes = 8 << 10  // of the page at its start
)

// rawFile is the least that a durable write costs: the bytes go one after the other to a file that has its full size
// already, and are synced; then a page that says where they end is written, and synced. Writes that wait share all of
// that, as those of memoryd's store do.
type rawFile struct {
	file   *os.File
	at     int64 // where the next write goes; of the committer
	writes int   // until now; of the committer

	mu      sync.Mutex
	changed sync.Cond // of mu
	waiting []*rawWrite
	closed  bool
	stopped chan struct{} // closed when the committer has ended

	commits                  prometheus.Histogram // and the writes that share them
	writeCalls, writtenBytes prometheus.Counter
}

type rawWrite struct {
	data []byte
	done chan error
}

// openRawFile makes the file, and counts in registry under the names of memoryd, so that it is read alike.
func openRawFile(name string, registry prometheus.Registerer) (*rawFile, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < rawBytes; at += int64(len(zeros)) { // A hole would cost at its first write.
		if _, err := file.WriteAt(zeros, at); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if err := file.Sync(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	auto := promauto.With(registry)
	f := &rawFile{
		file: file, at: rawMetaBytes, stopped: make(chan struct{}),
		commits: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "memoryd_store_commit_updates", Help: "Writes that share a commit.",
		}),
		writeCalls: auto.NewCounter(prometheus.CounterOpts{
			Name: "memoryd_store_write_calls_total", Help: "Writes to the file.",
		}),
		writtenBytes: auto.NewCounter(prometheus.CounterOpts{
			Name: "memoryd_store_written_bytes_total", Help: "Bytes of them.",
		}),
	}
	f.changed.L = &f.mu
	go f.commitLoop()
	return f, nil
}

// append writes data and returns when it is durable.
func (f *rawFile) append(data []byte) error {
	w := &rawWrite{data: data, done: make(chan error, 1)}
	f.mu.Lock()
	f.waiting = append(f.waiting, w)
	f.changed.Signal()
	f.mu.Unlock()
	return <-w.done
}

func (f *rawFile) close() error {
	f.mu.Lock()
	f.closed = true
	f.changed.Signal()
	f.mu.Unlock()
	<-f.stopped
	return f.file.Close()
}

// take returns what waits, and yields for as long as that makes it more; nil where the file is closed.
func (f *rawFile) take() []*rawWrite {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) == 0 && !f.closed {
		f.changed.Wait()
	}
	for n := 0; n < len(f.waiting); {
		n = len(f.waiting)
		f.mu.Unlock()
		runtime.Gosched()
		f.mu.Lock()
	}
	taken := f.waiting
	f.waiting = nil
	return taken
}

func (f *rawFile) commitLoop() {
	defer close(f.stopped)
	var data []byte
	for group := f.take(); group != nil; group = f.take() {
		data = data[:0]
		for _, w := range group {
			data = append(data, w.data...)
		}
		err := f.commit(data)
		f.commits.Observe(float64(len(group)))
		for _, w := range group {
			w.done <- err
		}
	}
}

func (f *rawFile) commit(data []byte) error {
	if f.at+int64(len(data)) > rawBytes {
		f.at = rawMetaBytes
	}
	if err := f.write(data, f.at); err != nil {
		return err
	}
	f.at += int64(len(data))
	f.writes++
	var meta [rawMetaBytes]byte
	binary.LittleEndian.PutUint64(meta[:], uint64(f.at))
	binary.LittleEndian.PutUint64(meta[8:], uint64(f.writes))
	return f.write(meta[:], 0)
}

// write writes and syncs.
func (f *rawFile) write(data []byte, at int64) error {
	if _, err := f.file.WriteAt(data, at); err != nil {
		return err
	}
	f.writeCalls.Inc()
	f.writtenBytes.Add(float64(len(data)))
	return syncData(f.file)
}
