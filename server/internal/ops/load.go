package ops

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Load is how much a server has to do now and has had to do so far. Its functions are called whenever metrics are asked
// for.
type Load struct {
	// Connections, RunningCalls and RequestBytes are what is bounded.
	Connections, RunningCalls, RequestBytes Bounded
	// Refused is how often something was refused for a bound, by the name of the bound.
	Refused map[string]func() int64
	// ReceivedBytes and SentBytes are what went over connections for calls, TLS and headers included.
	ReceivedBytes, SentBytes func() int64
	// AuditQueue is of how many calls the lines of the audit trail wait for its output; nil where there is no trail.
	AuditQueue func() int
}

// Bounded is how much is taken of something, and the most that can be.
type Bounded struct {
	Taken func() int64
	Most  int64
}

// Load has the metrics tell what a server has to do. It is called once.
func (m *Metrics) Load(l Load) {
	auto := promauto.With(m.registry)
	bounded := func(name, help string, b Bounded) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(b.Taken()) })
		auto.NewGauge(prometheus.GaugeOpts{
			Name: name + "_limit", Help: "The most that " + name + " can be; what comes above it is refused.",
		}).Set(float64(b.Most))
	}
	bounded("memoryd_connections", "Connections for calls that are open.", l.Connections)
	bounded("memoryd_running_calls", "Calls of the services of memoryd that run.", l.RunningCalls)
	bounded("memoryd_held_request_bytes", "Bytes of requests that running calls hold.", l.RequestBytes)
	counter := func(name, help string, labels prometheus.Labels, value func() int64) {
		auto.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value()) })
	}
	counter("memoryd_received_bytes_total", "Bytes received on connections for calls.", nil, l.ReceivedBytes)
	counter("memoryd_sent_bytes_total", "Bytes sent on connections for calls.", nil, l.SentBytes)
	for bound, refused := range l.Refused {
		counter("memoryd_overload_refusals_total",
			"Calls and connections that were refused for a bound: calls, calls_of_principal, request_bytes, watches (streams "+
				"of health checks and reflection), watches_of_address, connections or connections_of_address.",
			prometheus.Labels{"bound": bound}, refused)
	}
	if l.AuditQueue != nil {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "memoryd_audit_queued_calls", Help: "Calls whose lines of the audit trail wait for its output.",
		}, func() float64 { return float64(l.AuditQueue()) })
	}
}
