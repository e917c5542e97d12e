package ops

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// wantMetrics compares what is gathered of some metrics with a text as /metrics has it.
func wantMetrics(t *testing.T, m *Metrics, want string, names ...string) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMetrics_Committed(t *testing.T) {
	m := NewMetrics("")
	m.Committed(kv.Commit{Updates: 3, WriteCalls: 7, WrittenBytes: 65536, Took: 4 * time.Millisecond, Write: 3 * time.Millisecond})
	m.Committed(kv.Commit{Updates: 1, WriteCalls: 5, WrittenBytes: 8192, Took: 2 * time.Second, Write: time.Second})
	want := `# HELP memoryd_store_commit_updates Updates that shared a commit of the store; their sum is the updates, and their count the commits.
# TYPE memoryd_store_commit_updates histogram
memoryd_store_commit_updates_bucket{le="1"} 1
memoryd_store_commit_updates_bucket{le="2"} 1
memoryd_store_commit_updates_bucket{le="4"} 2
memoryd_store_commit_updates_bucket{le="8"} 2
memoryd_store_commit_updates_bucket{le="16"} 2
memoryd_store_commit_updates_bucket{le="32"} 2
memoryd_store_commit_updates_bucket{le="64"} 2
memoryd_store_commit_updates_bucket{le="128"} 2
memoryd_store_commit_updates_bucket{le="256"} 2
memoryd_store_commit_updates_bucket{le="512"} 2
memoryd_store_commit_updates_bucket{le="1024"} 2
memoryd_store_commit_updates_bucket{le="+Inf"} 2
memoryd_store_commit_updates_sum 4
memoryd_store_commit_updates_count 2
# HELP memoryd_store_write_calls_total Writes of pages to the disk.
# TYPE memoryd_store_write_calls_total counter
memoryd_store_write_calls_total 12
# HELP memoryd_store_written_bytes_total Bytes of pages that were written to the disk.
# TYPE memoryd_store_written_bytes_total counter
memoryd_store_written_bytes_total 73728
`
	wantMetrics(t, m, want, "memoryd_store_commit_updates", "memoryd_store_write_calls_total",
		"memoryd_store_written_bytes_total")
	for name, want := range map[string]float64{"memoryd_store_commit_seconds": 2.004, "memoryd_store_write_seconds": 1.003} {
		if got := histogramSum(t, m, name); got != want {
			t.Errorf("%s: got a sum of %v, want %v", name, got, want)
		}
	}
}

func histogramSum(t *testing.T, m *Metrics, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestMetrics_Store(t *testing.T) {
	stats := kv.Stats{SizeBytes: 100, FreeBytes: 30, Waiting: 2, DiskFreeBytes: new(int64(5000))}
	m := NewMetrics("")
	m.Store(func() kv.Stats { return stats })
	names := []string{
		"memoryd_store_size_bytes", "memoryd_store_free_bytes", "memoryd_store_waiting_updates", "memoryd_store_disk_free_bytes",
	}
	compare := func(want string) {
		t.Helper()
		wantMetrics(t, m, want, names...)
	}
	const rest = `# HELP memoryd_store_free_bytes How much of the size of the store is free for what comes.
# TYPE memoryd_store_free_bytes gauge
memoryd_store_free_bytes 30
# HELP memoryd_store_size_bytes What the store takes on disk.
# TYPE memoryd_store_size_bytes gauge
memoryd_store_size_bytes 100
# HELP memoryd_store_waiting_updates Updates that wait for their turn.
# TYPE memoryd_store_waiting_updates gauge
memoryd_store_waiting_updates 2
`
	const disk = `# HELP memoryd_store_disk_free_bytes How much room the file system of the store has left.
# TYPE memoryd_store_disk_free_bytes gauge
memoryd_store_disk_free_bytes `
	compare(disk + "5000\n" + rest)
	stats.DiskFreeBytes = new(int64(0)) // full
	compare(disk + "0\n" + rest)
	stats.DiskFreeBytes = nil // gone
	compare(disk + "0\n" + rest)

	m = NewMetrics("") // of a store that does not know
	m.Store(func() kv.Stats { return stats })
	compare(rest)
}
