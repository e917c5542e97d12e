package rpc

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/activity"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// How many namespaces GetActivity returns.
const (
	defaultBusiest = 10
	maxBusiest     = 100
)

// ActivityOptions is what GetActivity tells of. What is nil is not told.
type ActivityOptions struct {
	// Version is that of memoryd.
	Version string
	// Calls has what was called.
	Calls *activity.Activity
	// Load returns what there is right now.
	Load func() Load
	// Store has the numbers of the store.
	Store kv.StatsReporter
}

// Load is what a server has to do right now.
type Load struct {
	// Running is how many calls run, and MaxRunning how many may at once.
	Running, MaxRunning int64
	// Connections is how many connections for calls are open.
	Connections int64
}

// GetActivity implements memoryv1.AdminServiceServer.
func (s *adminService) GetActivity(_ context.Context, req *memoryv1.GetActivityRequest) (
	*memoryv1.GetActivityResponse, error,
) {
	if req.GetMaxNamespaces() < 0 {
		return nil, StatusError(invalid("max_namespaces", "max_namespaces must be 0 (which is %d) or more", defaultBusiest))
	}
	limit := min(cmp.Or(int(req.GetMaxNamespaces()), defaultBusiest), maxBusiest)
	busier, ok := activityOrders[req.GetOrder()]
	if !ok {
		return nil, StatusError(invalid("order", "order must be one of the values of ActivityOrder"))
	}
	o := s.activity
	snapshot := o.Calls.Snapshot()
	resp := &memoryv1.GetActivityResponse{
		Version:         o.Version,
		StartTime:       toTimestamp(snapshot.Started),
		CurrentTime:     toTimestamp(snapshot.Now),
		Window:          durationpb.New(snapshot.Window),
		Methods:         toMethodActivities(snapshot.Methods),
		Namespaces:      toBusiest(snapshot.Namespaces, busier, limit),
		MaxMissingCalls: snapshot.Missing,
	}
	if o.Load != nil {
		load := o.Load()
		resp.RunningCalls, resp.MaxRunningCalls, resp.Connections = load.Running, load.MaxRunning, load.Connections
	}
	if o.Store != nil {
		resp.Store = toStoreActivity(o.Store.Stats(), snapshot.Commits)
	}
	return resp, nil
}

// activityOrders are the orders of the busiest namespaces, by what each has most of.
var activityOrders = map[memoryv1.ActivityOrder]func(activity.Namespace) int64{
	memoryv1.ActivityOrder_ACTIVITY_ORDER_UNSPECIFIED: func(n activity.Namespace) int64 { return n.Calls },
	memoryv1.ActivityOrder_ACTIVITY_ORDER_CALLS:       func(n activity.Namespace) int64 { return n.Calls },
	memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME:        func(n activity.Namespace) int64 { return int64(n.Took) },
	memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED:      func(n activity.Namespace) int64 { return n.Failed },
}

// toBusiest returns those of which there is most, by name where it is as much.
func toBusiest(all []activity.Namespace, much func(activity.Namespace) int64, limit int) []*memoryv1.NamespaceActivity {
	// A call that was refused may have named anything.
	all = slices.DeleteFunc(all, func(n activity.Namespace) bool { return memory.ValidateNamespace(n.Name) != nil })
	slices.SortStableFunc(all, func(a, b activity.Namespace) int { return cmp.Compare(much(b), much(a)) })
	var busiest []*memoryv1.NamespaceActivity
	for _, n := range all[:min(limit, len(all))] {
		busiest = append(busiest, &memoryv1.NamespaceActivity{
			Namespace: n.Name, Calls: n.Calls, FailedCalls: n.Failed, TotalTime: durationpb.New(n.Took),
		})
	}
	return busiest
}

func toMethodActivities(methods []activity.Method) []*memoryv1.MethodActivity {
	all := make([]*memoryv1.MethodActivity, len(methods))
	for i, m := range methods {
		all[i] = &memoryv1.MethodActivity{
			Method: m.Name, Calls: m.Total.Calls, FailedCalls: m.Total.Failed,
			RecentCalls: m.Recent.Calls, RecentFailedCalls: m.Recent.Failed,
			RecentTotalTime: durationpb.New(m.Took), Latency: toLatency(m.Recent.Calls, m.Latency),
		}
	}
	return all
}

func toStoreActivity(stats kv.Stats, commits activity.Commits) *memoryv1.StoreActivity {
	return &memoryv1.StoreActivity{
		SizeBytes: stats.SizeBytes, FreeBytes: stats.FreeBytes,
		WaitingUpdates: stats.Waiting, Updates: stats.Updates, Commits: stats.Commits,
		RecentUpdates: commits.Updates, RecentCommits: commits.Commits,
		CommitLatency: toLatency(commits.Commits, commits.Latency),
	}
}

// toLatency turns the latency of no calls into an absent one.
func toLatency(calls int64, l activity.Latency) *memoryv1.Latency {
	if calls == 0 {
		return nil
	}
	return &memoryv1.Latency{
		P50: durationpb.New(l.P50), P90: durationpb.New(l.P90), P99: durationpb.New(l.P99), Max: durationpb.New(l.Max),
	}
}
