package boltkv

import (
	"sync"

	bolt "go.etcd.io/bbolt"
)

// maxIdle is how many read transactions are kept.
const maxIdle = 64

// idleReads keeps read transactions that nobody uses, while nothing is committed, for the Views to come: to begin one
// takes bbolt's locks and a dozen allocations.
//
// A read transaction that is open keeps pages from being used again, and the file from being mapped anew, which the
// committer would wait for. So it has all dropped before it begins a transaction of its own, and none kept until it
// has nothing more to do. Those that are in use meanwhile are not kept when they end.
type idleReads struct {
	mu         sync.Mutex
	idle       []*read
	keeping    bool
	generation int // raised whenever all are dropped, and when it ends that none is kept
}

// read is a read transaction of bbolt, with what reading a scope in it needs.
type read struct {
	*snapshot
	tx         *bolt.Tx
	generation int
}

// take returns one that is idle, nil where there is none, and the generation that one has that begins now.
func (r *idleReads) take() (*read, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.idle) - 1
	if last < 0 {
		return nil, r.generation
	}
	taken := r.idle[last]
	r.idle = r.idle[:last]
	return taken, r.generation
}

// give keeps one that is not used any more. It returns false where that is not to be: then it has to be ended.
func (r *idleReads) give(used *read) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.keeping || used.generation != r.generation || len(r.idle) >= maxIdle {
		return false
	}
	r.idle = append(r.idle, used)
	return true
}

// keep has those kept from now on that end.
func (r *idleReads) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeping = true
	r.generation++ // One that has begun since the drop may not see what was committed.
}

// drop ends all that are idle, and has none kept any more.
func (r *idleReads) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, idle := range r.idle {
		_ = idle.tx.Rollback() // It fails only where it was done already.
	}
	clear(r.idle)
	r.idle = r.idle[:0]
	r.keeping = false
	r.generation++
}
