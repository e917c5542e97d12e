package server

import (
	"maps"
	"slices"

	"github.com/seed-7f2870e1/memoryd/server/internal/activity"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// newActivity returns the activity of a server that starts now.
func newActivity(cfg Config) *activity.Activity {
	return activity.New(slices.Collect(maps.Keys(methods)), cfg.now)
}

// committed notes a commit of the store.
func (s *Server) committed(c kv.Commit) {
	s.metrics.Committed(c)
	s.activity.NoteCommit(c.Updates, c.Took)
}

// activityOptions is what GetActivity tells of.
func (s *Server) activityOptions(store kv.Store) rpc.ActivityOptions {
	slots, connections := s.limits.slots, s.conns.slots
	opts := rpc.ActivityOptions{Version: Version(), Calls: s.activity, Load: func() rpc.Load {
		return rpc.Load{Running: slots.count(), MaxRunning: int64(slots.most), Connections: connections.count()}
	}}
	if stats, ok := kv.As[kv.StatsReporter](store); ok {
		opts.Store = stats
	}
	return opts
}
