package trial

import (
	"context"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

// Names of what servers count themselves.
const (
	countedAllocs     = "go_memstats_mallocs_total"
	countedAllocBytes = "go_memstats_alloc_bytes_total"
	countedUpdates    = "memoryd_store_commit_updates_sum"
	countedCommits    = "memoryd_store_commit_updates_count"
	countedWrites     = "memoryd_store_write_calls_total"
	countedBytes      = "memoryd_store_written_bytes_total"
)

// counters is what a server and the system have counted about it at some moment.
type counters struct {
	usage   *child.Usage       // nil: not counted
	metrics map[string]float64 // by name; nil: not counted
}

func (s Subject) counters(ctx context.Context) (counters, error) {
	if s.Server == nil {
		return counters{}, nil
	}
	metrics, err := s.Server.Metrics(ctx)
	if err != nil {
		return counters{}, err
	}
	usage, err := s.Server.Usage()
	if err != nil {
		return counters{}, err
	}
	return counters{usage: usage, metrics: metrics}, nil
}

// addCounters adds what was counted from begin to end.
func (m *slice) addCounters(begin, end counters) {
	calls := float64(m.calls)
	if begin.usage != nil && end.usage != nil {
		m.figures[CPU] = (end.usage.CPUSeconds - begin.usage.CPUSeconds) / calls
	}
	counted := func(name string) (float64, bool) {
		value, ok := end.metrics[name]
		return value - begin.metrics[name], ok
	}
	for metric, name := range map[Metric]string{Allocs: countedAllocs, AllocBytes: countedAllocBytes} {
		if n, ok := counted(name); ok {
			m.figures[metric] = n / calls
		}
	}
	m.commits, _ = counted(countedCommits)
	if m.commits == 0 {
		return
	}
	for metric, name := range map[Metric]string{Writes: countedWrites, WrittenBytes: countedBytes} {
		if n, ok := counted(name); ok {
			m.figures[metric] = n / calls
		}
	}
	if updates, ok := counted(countedUpdates); ok {
		m.figures[Group] = updates / m.commits
	}
}
