// Package trial measures what is compared: in rounds, of which each has one slice of time for everybody, in an order of
// its own.
package trial

import (
	"slices"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/stat"
)

// Metric is what is measured.
type Metric string

// Metrics of every slice. Those of the server are there where it counts them. What /proc/PID/io calls write_bytes is no
// measure of what is written: a kernel with large folios counts all of a folio, of up to 2 MiB, where a page of it is.
const (
	Rate         Metric = "rate"          // calls a second
	P50          Metric = "p50"           // seconds of the middle call
	P99          Metric = "p99"           // seconds that 1 call in 100 exceeds
	CPU          Metric = "cpu"           // seconds of the server's processor, a call
	Allocs       Metric = "allocs"        // allocations of the server, a call
	AllocBytes   Metric = "alloc_bytes"   // bytes that it allocated, a call
	Group        Metric = "group"         // calls that share a commit, on average
	Writes       Metric = "writes"        // system calls that write to the store, a call
	WrittenBytes Metric = "written_bytes" // bytes of them, a call
)

// Metrics that are not those of every slice.
const (
	Syncs     Metric = "syncs"      // fsync, fdatasync and msync, a commit, in a slice in which they are traced
	Growth    Metric = "growth"     // bytes by which files grew, a call, over all slices
	AnonBytes Metric = "anon_bytes" // memory of the server that no file backs
	Start     Metric = "start"      // seconds from exec until it serves
	ReadBytes Metric = "read_bytes" // bytes that the disk gave
)

// Figures are the values of metrics. What was not measured is absent.
type Figures map[Metric]float64

// Medians returns the medians of the slices.
func Medians(slices []Figures) Figures {
	values := map[Metric][]float64{}
	for _, s := range slices {
		for m, v := range s {
			values[m] = append(values[m], v)
		}
	}
	result := Figures{}
	for m, v := range values {
		result[m] = stat.Median(v)
	}
	return result
}

// newSample sorts took.
func newSample(took []time.Duration, elapsed time.Duration) Sample {
	slices.Sort(took)
	return Sample{
		Calls: len(took), Elapsed: elapsed, P50: stat.Quantile(took, 0.5), P99: stat.Quantile(took, 0.99),
	}
}
