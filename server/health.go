package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// healthInterval is how often the store is asked whether it takes writes.
const healthInterval = time.Second

// errNotServing is what /readyz tells before the server serves and when it stops.
var errNotServing = errors.New("not serving")

// storeHealth follows whether the store takes writes, and whether a call has met damaged data. Where something is
// wrong, health checks of all services fail, so that writers go elsewhere or someone is called; whoever calls
// nevertheless can still read.
type storeHealth struct {
	store   kv.HealthReporter // nil where the store does not tell
	checks  *health.Server
	metrics *ops.Metrics
	logger  *slog.Logger
	fault   atomic.Pointer[string] // what is wrong, for operators; nil where nothing is
	damaged atomic.Bool            // for good: only a restart, after a look at the data, makes up for it
}

// faultDamaged is what is wrong where data are damaged.
const faultDamaged = "stored data are damaged; run memoryd check"

func newStoreHealth(store kv.Store, checks *health.Server, metrics *ops.Metrics, logger *slog.Logger) *storeHealth {
	reporter, _ := kv.As[kv.HealthReporter](store)
	h := &storeHealth{store: reporter, checks: checks, metrics: metrics, logger: logger}
	h.publish(nil)
	return h
}

// follow asks the store at every tick until ctx is done.
func (h *storeHealth) follow(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			h.check(ctx)
		}
	}
}

// metDamage notes that a call has met damaged data. Metrics tell of it at once, whatever else is wrong with the store;
// health checks from the next tick on.
func (h *storeHealth) metDamage() {
	h.damaged.Store(true)
	h.metrics.DataDamaged()
}

// check asks the store once, and tells of what has changed.
func (h *storeHealth) check(ctx context.Context) {
	var err error
	if h.store != nil {
		err = h.store.Health()
	}
	if ctx.Err() != nil {
		return // The server stops, which is what is told by now.
	}
	fault, before := faultOf(err), h.fault.Load()
	if fault == nil && h.damaged.Load() {
		fault, err = new(faultDamaged), kv.ErrCorrupt
	}
	switch {
	case fault == nil && before == nil, fault != nil && before != nil && *fault == *before:
		return
	case fault == nil:
		h.logger.InfoContext(ctx, "the store is well again")
	default:
		h.logger.ErrorContext(ctx, "not serving: something is wrong with the store", "reason", *fault, "error", err)
	}
	h.publish(fault)
}

func (h *storeHealth) publish(fault *string) {
	h.fault.Store(fault)
	h.metrics.StoreWritable(fault == nil || *fault == faultDamaged)
	serving := healthpb.HealthCheckResponse_SERVING
	if fault != nil {
		serving = healthpb.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range append(rpc.ServiceNames(), "") { // "" is the server as a whole
		h.checks.SetServingStatus(name, serving)
	}
}

func faultOf(err error) *string {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrFull):
		return new("store is full")
	case errors.Is(err, kv.ErrReadOnly):
		return new("store is read-only until memoryd is restarted; check the device")
	default:
		return new("store takes no writes")
	}
}

// ready tells why the server is not ready for calls; nil where it is.
func (s *Server) ready() error {
	if !s.serving.Load() {
		return errNotServing
	}
	if fault := s.storeHealth.fault.Load(); fault != nil {
		return errors.New(*fault)
	}
	return nil
}
