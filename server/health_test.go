package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// sickStore is a store that tells how it is.
type sickStore struct {
	kv.Store
	err atomic.Pointer[error] // nil: it is fine
}

func (s *sickStore) Health() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *sickStore) set(err error) {
	if err == nil {
		s.err.Store(nil)
		return
	}
	s.err.Store(&err)
}

func wantServing(t *testing.T, checks *health.Server, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	for _, name := range append(rpc.ServiceNames(), "") {
		resp, err := checks.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || resp.GetStatus() != want {
			t.Errorf("%q: got %v, %v; want %v", name, resp, err, want)
		}
	}
}

// gaugeOf is the value of a gauge without labels.
func gaugeOf(t *testing.T, metrics *ops.Metrics, name string) float64 {
	t.Helper()
	families, err := metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestStoreHealth(t *testing.T) {
	const serving, notServing = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	const readOnly = "store is read-only until memoryd is restarted; check the device"
	log, store, checks := &logBuffer{}, &sickStore{}, health.NewServer()
	h := newStoreHealth(store, checks, ops.NewMetrics(""), log.logger())
	wantServing(t, checks, serving)
	steps := []struct {
		err    error
		want   healthpb.HealthCheckResponse_ServingStatus
		reason string // of the fault; "" is none
		lines  int    // of the log, so far
	}{
		{nil, serving, "", 0},
		{fmt.Errorf("commit: %w", kv.ErrFull), notServing, "store is full", 1},
		{fmt.Errorf("commit again: %w", kv.ErrFull), notServing, "store is full", 1},
		{nil, serving, "", 2},
		{kv.ErrFull, notServing, "store is full", 3},
		{kv.ErrReadOnly, notServing, readOnly, 4},
		{kv.ErrReadOnly, notServing, readOnly, 4},
		{errors.New("unheard of"), notServing, "store takes no writes", 5},
	}
	for i, step := range steps {
		store.set(step.err)
		h.check(t.Context())
		wantServing(t, checks, step.want)
		got := ""
		if fault := h.fault.Load(); fault != nil {
			got = *fault
		}
		if got != step.reason {
			t.Errorf("step %d: got %q, want %q", i, got, step.reason)
		}
		if got := strings.Count(log.String(), "\n"); got != step.lines {
			t.Errorf("step %d: got %d lines, want %d:\n%s", i, got, step.lines, log)
		}
	}
}

// A call that meets damaged data makes the server NOT_SERVING for good, also where writes go on.
func TestStoreHealth_Damaged(t *testing.T) {
	log, store, checks := &logBuffer{}, &sickStore{}, health.NewServer()
	metrics := ops.NewMetrics("")
	damaged := func() float64 { return gaugeOf(t, metrics, "memoryd_data_damaged") }
	h := newStoreHealth(store, checks, metrics, log.logger())
	logger := &callLogger{logger: log.logger(), metDamage: h.metDamage}
	c, ctx := callIn(t.Context())
	ended := func(err error) { logger.ended(ctx, c, memoryv1.MemoryService_View_FullMethodName, err, 0) }
	for _, err := range []error{nil, rpc.StatusError(kv.ErrReadOnly)} {
		ended(err)
		h.check(t.Context())
		wantServing(t, checks, healthpb.HealthCheckResponse_SERVING)
	}
	if got := damaged(); got != 0 {
		t.Errorf("the metric is %v before any damage, want 0", got)
	}
	store.set(kv.ErrFull) // Metrics tell of damage also where another fault is told of by health checks.
	h.check(t.Context())
	ended(rpc.StatusError(fmt.Errorf("view: %w", kv.ErrCorrupt)))
	ended(nil)
	for _, err := range []error{kv.ErrFull, nil, nil} {
		store.set(err)
		h.check(t.Context())
		wantServing(t, checks, healthpb.HealthCheckResponse_NOT_SERVING)
		if got := damaged(); got != 1 {
			t.Errorf("the store has the error %v: the metric is %v, want 1", err, got)
		}
	}
	if got := *h.fault.Load(); got != faultDamaged {
		t.Errorf("got %q, want %q", got, faultDamaged)
	}
}

func TestStoreHealth_Follow(t *testing.T) {
	store := &sickStore{}
	h := newStoreHealth(store, health.NewServer(), ops.NewMetrics(""), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan struct{})
	go func() {
		h.follow(ctx, ticks)
		close(done)
	}()
	store.set(kv.ErrFull)
	ticks <- time.Time{}
	ticks <- time.Time{} // The first has been dealt with.
	if h.fault.Load() == nil {
		t.Error("the fault was not noticed")
	}
	cancel()
	<-done
}

// decorated is a store around another.
type decorated struct{ kv.Store }

func (d decorated) Unwrap() kv.Store { return d.Store }

// TestServer_StoreTakesNoWrites starts a server on a store that is read-only, behind a decorator.
func TestServer_StoreTakesNoWrites(t *testing.T) {
	store := &sickStore{Store: newStore(t)}
	store.set(kv.ErrReadOnly)
	r := start(t, Config{Store: decorated{store}, HTTP: "127.0.0.1:0"})
	if _, err := view(t.Context(), r); err != nil {
		t.Errorf("a call that reads: %v", err)
	}
	resp, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("got %v, %v; want NOT_SERVING", resp, err)
	}
	code, body := httpGet(t, r, "/readyz")
	want := "store is read-only until memoryd is restarted; check the device\n"
	if code != 503 || body != want {
		t.Errorf("/readyz: got %d %q, want 503 %q", code, body, want)
	}
	if code, _ := httpGet(t, r, "/healthz"); code != 200 {
		t.Errorf("/healthz: got %d, want 200: a restart is not for the orchestrator to decide", code)
	}
	if _, metrics := httpGet(t, r, "/metrics"); !strings.Contains(metrics, "\nmemoryd_store_writable 0\n") {
		t.Error("the metrics do not say that the store takes no writes")
	}
}
