// Package ops is the side port of memoryd: an HTTP server for operators, with metrics, liveness and readiness.
//
// Metrics never carry the name of a namespace, a path, or anything else that callers choose: their labels are of small
// fixed sets.
package ops

import (
	"runtime"

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
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "memoryd_build_info",
		Help:        "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.grpc, m.commands, m.repaired, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Command counts a command that was answered.
func (m *Metrics) Command(name, reason string) { m.commands.WithLabelValues(name, reason).Inc() }

// Repaired counts a slip that was put right.
func (m *Metrics) Repaired(kind string) { m.repaired.WithLabelValues(kind).Inc() }

// Unary returns the interceptor that counts and times unary calls.
func (m *Metrics) Unary() grpc.UnaryServerInterceptor { return m.grpc.UnaryServerInterceptor() }

// Stream returns the interceptor that counts and times streams.
func (m *Metrics) Stream() grpc.StreamServerInterceptor { return m.grpc.StreamServerInterceptor() }

// Initialize makes the metrics of every method of a server start at 0, so that rates are right from the first call on.
func (m *Metrics) Initialize(server reflection.ServiceInfoProvider) { m.grpc.InitializeMetrics(server) }
