// Package activity knows what a server does right now: how many calls of each method end in the last minute and how
// long they take, which namespaces are busiest, and how the store commits.
//
// It is noted at the end of every call, so that it takes one short lock and, once its tables are full, no memory.
// Its memory is bounded whatever callers send. The last minute is a ring of periods of ten seconds: what is told of it
// covers five whole ones and the one that runs, which Snapshot.Window says exactly.
package activity

import (
	"slices"
	"sync"
	"time"
)

const (
	// periodLength is how much of time one period covers.
	periodLength = 10 * time.Second
	// periods is how many of them are kept.
	periods = 6
)

// MaxNamespaceBytes is the most bytes that the name of a namespace has. What is longer is not counted by its name.
const MaxNamespaceBytes = 200

// Call is a call that has ended.
type Call struct {
	// Method is the full name of its method, such as "/memoryd.v1.MemoryService/View".
	Method string
	// Namespace is the namespace of its request. The call is counted by its method only where that is empty or longer
	// than MaxNamespaceBytes.
	Namespace string
	// Failed: its status is not OK, or its result is an error.
	Failed bool
	// Took is how long it took.
	Took time.Duration
}

// Activity is what one server does. It is safe for concurrent use. A nil Activity notes nothing.
type Activity struct {
	now     func() time.Time
	started time.Time
	names   []string
	methods map[string]int // to the index in names; it never changes

	mu     sync.Mutex
	totals []Count          // of methods, since the start
	latest int64            // the number of the latest period
	ring   [periods]*period // the period with number n is at n % periods
}

// Count is a number of calls, and how many of them failed.
type Count struct{ Calls, Failed int64 }

func (c *Count) add(failed bool) {
	c.Calls++
	if failed {
		c.Failed++
	}
}

// period is what happened in one period.
type period struct {
	number     int64 // since the start, from 0
	methods    []methodCount
	namespaces busiest
	commits    latencies
	updates    int64 // that the commits were of
}

type methodCount struct {
	failed  int64
	latency latencies
}

// New returns the activity of a server that starts now. Calls of other methods than those are not noted.
func New(methods []string, now func() time.Time) *Activity {
	a := &Activity{
		now:     now,
		started: now(),
		names:   slices.Clone(methods),
		methods: make(map[string]int, len(methods)),
		totals:  make([]Count, len(methods)),
	}
	for i, name := range a.names {
		a.methods[name] = i
	}
	for i := range a.ring {
		a.ring[i] = &period{number: -1, methods: make([]methodCount, len(methods)), namespaces: newBusiest(maxNamespaces)}
	}
	return a
}

// Note notes a call that has ended.
func (a *Activity) Note(c Call) {
	if a == nil {
		return
	}
	method, ok := a.methods[c.Method]
	if !ok {
		return
	}
	number := a.number()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals[method].add(c.Failed)
	p := a.period(number)
	m := &p.methods[method]
	m.latency.add(c.Took)
	if c.Failed {
		m.failed++
	}
	if c.Namespace != "" && len(c.Namespace) <= MaxNamespaceBytes {
		p.namespaces.add(c)
	}
}

// NoteCommit notes a commit of the store: how many updates shared it, and how long it took.
func (a *Activity) NoteCommit(updates int, took time.Duration) {
	if a == nil {
		return
	}
	number := a.number()
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.period(number)
	p.commits.add(took)
	p.updates += int64(updates)
}

// number returns the number of the period that is now.
func (a *Activity) number() int64 { return int64(max(a.now().Sub(a.started), 0) / periodLength) }

// period returns a period, empty where it begins. The caller holds the lock; another may have taken it in between, for
// which the period with that number is over already.
func (a *Activity) period(number int64) *period {
	a.latest = max(a.latest, number)
	p := a.ring[a.latest%periods]
	if p.number != a.latest {
		p.number = a.latest
		clear(p.methods)
		p.namespaces.clear()
		p.commits, p.updates = latencies{}, 0
	}
	return p
}
