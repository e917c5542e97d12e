package memory

import (
	"context"
	"sync"
)

const (
	// maxBacklogBytes is how much may wait to be searched behind the answers.
	maxBacklogBytes = 64 << 20
	// maxBacklogBytesEach is how much of that may be of one namespace, which may have one change of any size.
	maxBacklogBytesEach = 8 << 20
)

// backlog searches what was written and answered already, as the answer would have had to wait for the searches of
// others. What it has no room for is not searched, which is no worse than a report less. One goroutine works it off,
// and there is none while it is empty. The zero value is empty.
type backlog struct {
	mu      sync.Mutex
	waiting []lateSearch
	bytes   map[string]int // of what waits or is searched, by namespace
	total   int            // of bytes
	ended   bool
	cancel  context.CancelFunc // of the goroutine
	done    chan struct{}      // closed once the goroutine has ended; nil where there is none
}

// lateSearch is what is left to do for one change.
type lateSearch struct {
	namespace string
	bytes     int // that it holds
	search    func(context.Context)
}

// add tells whether there is room for a search. The context of the search is done once the backlog is to end.
func (b *backlog) add(s lateSearch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	each := b.bytes[s.namespace]
	if b.ended || b.total+s.bytes > maxBacklogBytes || each > 0 && each+s.bytes > maxBacklogBytesEach {
		return false
	}
	b.hold(s.namespace, s.bytes)
	b.waiting = append(b.waiting, s)
	if b.done == nil {
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(context.Background())
		b.done = make(chan struct{})
		go b.run(ctx)
	}
	return true
}

// hold counts bytes, which are negative where they are let go.
func (b *backlog) hold(namespace string, bytes int) {
	if b.bytes == nil {
		b.bytes = make(map[string]int)
	}
	b.total += bytes
	if b.bytes[namespace] += bytes; b.bytes[namespace] == 0 {
		delete(b.bytes, namespace)
	}
}

// run works until nothing waits.
func (b *backlog) run(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 {
		s := b.waiting[0]
		b.waiting[0] = lateSearch{} // lets go of its texts
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		s.search(ctx)
		b.mu.Lock()
		b.hold(s.namespace, -s.bytes)
	}
	b.waiting = nil
	b.cancel()
	close(b.done)
	b.done = nil
}

// end takes no more, and waits until what there is was given up.
func (b *backlog) end() {
	b.mu.Lock()
	b.ended = true
	done := b.done
	if done != nil {
		b.cancel()
	}
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}
