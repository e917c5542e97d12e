// Package ops is the side port of memoryd: an HTTP server for operators, with metrics, liveness and readiness.
//
// Metrics never carry the name of a namespace, a path, or anything else that callers choose: their labels are of small
// fixed sets.
package ops

import (
	"runtime"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
)

// handlingBuckets are the bounds of the histogram of how long calls took, in seconds: from a read of the page cache to
// the default call timeout.
var handlingBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Metrics is what one server counts, in a registry of its own.
type Metrics struct {
	registry *prometheus.Registry
	grpc     *grpcprom.ServerMetrics
	commands *prometheus.CounterVec
	repaired *prometheus.CounterVec
	backups  *prometheus.CounterVec
	backedUp prometheus.Gauge
	gaveUp   prometheus.Counter
	writable prometheus.Gauge
}

// NewMetrics returns the metrics of a server of a version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		grpc: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
			grpcprom.WithHistogramBuckets(handlingBuckets))),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "memoryd_commands_total",
			Help: "Commands that were answered, by command and by why they failed; ok is success.",
		}, []string{"command", "reason"}),
		repaired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "memoryd_repaired_inputs_total",
			Help: "Slips of models in the input of commands that were put right, by kind.",
		}, []string{"kind"}),
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "memoryd_backups_total",
			Help: "Scheduled backups, by result: ok or error.",
		}, []string{"result"}),
		backedUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "memoryd_backup_last_success_timestamp_seconds",
			Help: "When the newest scheduled backup was made, in seconds since 1970; 0 where there is none.",
		}),
		gaveUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "memoryd_requests_given_up_total",
			Help: "Calls that were ended before the whole of their request had come.",
		}),
		writable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "memoryd_store_writable",
			Help: "1 where the store takes writes, 0 where it can only be read.",
		}),
	}
	for _, result := range []string{backupOK, backupError} {
		m.backups.WithLabelValues(result) // It starts at 0, so that rates are right from the first backup on.
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "memoryd_build_info",
		Help:        "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.grpc, m.commands, m.repaired, m.backups, m.backedUp, m.gaveUp, m.writable, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Command counts a command that was answered.
func (m *Metrics) Command(name, reason string) { m.commands.WithLabelValues(name, reason).Inc() }

// Repaired counts a slip that was put right.
func (m *Metrics) Repaired(kind string) { m.repaired.WithLabelValues(kind).Inc() }

// Results of a scheduled backup.
const (
	backupOK    = "ok"
	backupError = "error"
)

// BackupMade counts a scheduled backup that was made.
func (m *Metrics) BackupMade() { m.backups.WithLabelValues(backupOK).Inc() }

// BackupFailed counts a scheduled backup that was not made.
func (m *Metrics) BackupFailed() { m.backups.WithLabelValues(backupError).Inc() }

// NewestBackup notes when the newest scheduled backup was made.
func (m *Metrics) NewestBackup(at time.Time) { m.backedUp.Set(float64(at.Unix())) }

// RequestGivenUp counts a call whose request did not come in time.
func (m *Metrics) RequestGivenUp() { m.gaveUp.Inc() }

// StoreWritable notes whether the store takes writes.
func (m *Metrics) StoreWritable(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	m.writable.Set(value)
}

// Unary returns the interceptor that counts and times unary calls.
func (m *Metrics) Unary() grpc.UnaryServerInterceptor { return m.grpc.UnaryServerInterceptor() }

// Stream returns the interceptor that counts and times streams.
func (m *Metrics) Stream() grpc.StreamServerInterceptor { return m.grpc.StreamServerInterceptor() }

// Initialize makes the metrics of every method of a server start at 0, so that rates are right from the first call on.
func (m *Metrics) Initialize(server reflection.ServiceInfoProvider) { m.grpc.InitializeMetrics(server) }
