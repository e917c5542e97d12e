package ops

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Committed counts a commit of the store.
func (m *Metrics) Committed(c kv.Commit) {
	m.commitUpdates.Observe(float64(c.Updates))
	m.commitTook.Observe(c.Took.Seconds())
	m.commitWrite.Observe(c.Write.Seconds())
	m.writeCalls.Add(float64(c.WriteCalls))
	m.writtenBytes.Add(float64(c.WrittenBytes))
}

// Store has the metrics tell what a store holds, which is asked for when they are. It is called once.
func (m *Metrics) Store(stats func() kv.Stats) {
	auto := promauto.With(m.registry)
	gauge := func(name, help string, value func(kv.Stats) int64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(stats())) })
	}
	gauge("memoryd_store_size_bytes", "What the store takes on disk.",
		func(s kv.Stats) int64 { return s.SizeBytes })
	gauge("memoryd_store_free_bytes", "How much of the size of the store is free for what comes.",
		func(s kv.Stats) int64 { return s.FreeBytes })
	gauge("memoryd_store_waiting_updates", "Updates that wait for their turn.",
		func(s kv.Stats) int64 { return s.Waiting })
	if stats().DiskFreeBytes != nil {
		gauge("memoryd_store_disk_free_bytes", "How much room the file system of the store has left.", diskFreeBytes)
	}
}

// diskFreeBytes is 0 where a store that knew it before cannot tell now: its disk is gone.
func diskFreeBytes(s kv.Stats) int64 {
	if s.DiskFreeBytes == nil {
		return 0
	}
	return *s.DiskFreeBytes
}
