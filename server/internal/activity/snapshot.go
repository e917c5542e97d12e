package activity

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is what a server does at one moment.
type Snapshot struct {
	// Started is when the server started, and Now when the snapshot was taken.
	Started, Now time.Time
	// Window is how much of time before Now "of late" covers: at most a minute, and no more than since Started.
	Window time.Duration
	// Methods are those that were called since Started, by name.
	Methods []Method
	// Namespaces are those with a call of late, by name: all of them, or the busiest where there are very many.
	Namespaces []Namespace
	// Missing is the most calls that each namespace, listed or not, may have had of late beyond those that are told.
	// 0: all are told.
	Missing int64
	// Commits are those of the store of late.
	Commits Commits
}

// Method is what was called of one method.
type Method struct {
	Name string
	// Total is since Started, and Recent is of late.
	Total, Recent Count
	// Took is how long the calls of late took together.
	Took time.Duration
	// Latency is how long each of them took.
	Latency Latency
}

// Namespace is what was called in one namespace of late.
type Namespace struct {
	Name string
	Count
	// Took is how long the calls took together.
	Took time.Duration
}

// Commits is how the store committed of late.
type Commits struct {
	Commits int64
	// Updates is how many updates those commits were of.
	Updates int64
	Latency Latency
}

// Latency is how long calls took. All is 0 where there were none.
type Latency struct {
	// P50, P90 and P99 are how long 50, 90 and 99 % of the calls took at most. They are estimates that are off by at
	// most 10 % from a microsecond on.
	P50, P90, P99 time.Duration
	// Max is how long the longest took, exactly.
	Max time.Duration
}

// Snapshot returns what the server does. That of a nil Activity is empty.
func (a *Activity) Snapshot() Snapshot {
	if a == nil {
		return Snapshot{}
	}
	now := a.now()
	number := int64(max(now.Sub(a.started), 0) / periodLength)
	s := Snapshot{
		Started: a.started,
		Now:     now,
		Window:  now.Sub(a.started) - time.Duration(max(number-periods+1, 0))*periodLength,
	}
	totals := make([]Count, len(a.names))
	recent := make([]methodCount, len(a.names))
	var commits latencies
	var entries []entry

	a.mu.Lock()
	copy(totals, a.totals)
	for _, p := range a.ring {
		if p.number <= number-periods || p.number < 0 {
			continue
		}
		for i := range p.methods {
			recent[i].failed += p.methods[i].failed
			recent[i].latency.merge(&p.methods[i].latency)
		}
		commits.merge(&p.commits)
		s.Commits.Updates += p.updates
		entries = append(entries, p.namespaces.entries...)
		s.Missing += p.namespaces.least
	}
	a.mu.Unlock()

	for i, name := range a.names {
		if totals[i].Calls > 0 {
			r := &recent[i]
			s.Methods = append(s.Methods, Method{
				Name: name, Total: totals[i], Recent: Count{r.latency.count, r.failed},
				Took: r.latency.sum, Latency: r.latency.summary(),
			})
		}
	}
	slices.SortFunc(s.Methods, func(a, b Method) int { return cmp.Compare(a.Name, b.Name) })
	s.Commits.Commits, s.Commits.Latency = commits.count, commits.summary()
	s.Namespaces = sum(entries)
	return s
}

func (l *latencies) summary() Latency {
	return Latency{P50: l.quantile(0.50), P90: l.quantile(0.90), P99: l.quantile(0.99), Max: l.max}
}

// sum adds up the entries of each namespace.
func sum(entries []entry) []Namespace {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.namespace, b.namespace) })
	var all []Namespace
	for _, e := range entries {
		if len(all) == 0 || all[len(all)-1].Name != e.namespace {
			all = append(all, Namespace{Name: e.namespace})
		}
		n := &all[len(all)-1]
		n.Calls += e.count.Calls
		n.Failed += e.count.Failed
		n.Took += e.took
	}
	return all
}
