package boltkv

import (
	"runtime"
	"sync"
	"time"
)

// queue holds the updates that wait for the committer.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond // of mu
	waiting []*update
	closed  bool

	wanted int           // how many are to wait before the committer goes on
	enough chan struct{} // closed once they do; nil while the committer does not wait for that
}

func (q *queue) init() { q.changed.L = &q.mu }

// push returns false where the queue is closed.
func (q *queue) push(u *update) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, u)
	q.signal()
	return true
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// signal wakes the committer where there is what it waits for.
func (q *queue) signal() {
	if q.enough == nil {
		q.changed.Signal()
	} else if len(q.waiting) >= q.wanted || q.closed {
		close(q.enough)
		q.enough = nil
	}
}

// take returns all that waits, and waits until there is something; nil where the queue is closed and empty. Then it
// waits until there are as many as are wanted, but no longer than until the time. And it yields for as long as that
// makes the queue grow.
func (q *queue) take(wanted int, until time.Time) []*update {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.changed.Wait()
	}
	q.gather(wanted, until)
	for n := 0; n < len(q.waiting); {
		n = len(q.waiting)
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	updates := q.waiting
	q.waiting = nil
	return updates
}

// gather waits until as many wait as are wanted, but no longer than until the time. It gives up the lock meanwhile.
func (q *queue) gather(wanted int, until time.Time) {
	if len(q.waiting) >= wanted || q.closed {
		return
	}
	limit := time.Until(until)
	if limit <= 0 {
		return
	}
	enough := make(chan struct{})
	q.wanted, q.enough = wanted, enough
	q.mu.Unlock()
	timer := time.NewTimer(limit)
	select {
	case <-enough:
	case <-timer.C:
	}
	timer.Stop()
	q.mu.Lock()
	q.enough = nil
}

// gathering decides for how many updates the committer waits before it begins the next group. The zero value waits for
// none.
//
// Callers that were just answered often call again at once: agents that work through a list, an import, a benchmark.
// Over a network that takes them longer than it takes to begin the next group, which then is for the few that came
// during the last commit, and so the callers fall into two halves that take turns. Therefore the committer waits until
// most of them are back. Where they do not come it goes on soon after the last commit, by the measure of what that
// took: who comes later is made to wait for nobody.
type gathering struct {
	callers int           // how many were answered after the last commit, or waited when it ended
	took    time.Duration // by the last commit
	ended   time.Time     // when it had
}

// maxGatherTime is the longest that an update may wait for others, however slow the disk is.
const maxGatherTime = 10 * time.Millisecond

// next returns how many updates to wait for, and until when at most. A lone caller is never made to wait.
func (g gathering) next() (wanted int, until time.Time) {
	// The last quarter is left to come during the commit, so that the processors have something to do then.
	return g.callers - g.callers/4, g.ended.Add(min(2*g.took, maxGatherTime))
}
