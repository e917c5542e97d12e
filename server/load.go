package server

import "github.com/seed-7f2870e1/memoryd/server/internal/ops"

// loadMetrics is what the metrics tell of how much the server has to do.
func (s *Server) loadMetrics() ops.Load {
	l, c := s.limits, s.conns
	load := ops.Load{
		Connections:  ops.Bounded{Taken: c.slots.count, Most: int64(c.slots.most)},
		RunningCalls: ops.Bounded{Taken: l.slots.count, Most: int64(l.slots.most)},
		RequestBytes: ops.Bounded{Taken: l.held.Load, Most: l.mostBytes},
		Refused: map[string]func() int64{
			"calls":                  func() int64 { return l.slots.refusals(noneLeft) },
			"calls_of_principal":     func() int64 { return l.slots.refusals(shareUsed) },
			"request_bytes":          l.refused.Load,
			"watches":                func() int64 { return l.watches.refusals(noneLeft) },
			"watches_of_address":     func() int64 { return l.watches.refusals(shareUsed) },
			"connections":            func() int64 { return c.slots.refusals(noneLeft) },
			"connections_of_address": func() int64 { return c.slots.refusals(shareUsed) },
		},
		ReceivedBytes: c.receivedBytes, SentBytes: c.sentBytes,
	}
	if s.auditLog != nil {
		load.AuditQueue = s.auditLog.Queued
	}
	return load
}
