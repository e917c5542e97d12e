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
	registry  *prometheus.Registry
	grpc      *grpcprom.ServerMetrics
	commands  *prometheus.CounterVec
	repaired  *prometheus.CounterVec
	backups   *prometheus.CounterVec
	backedUp  prometheus.Gauge
	gaveUp    prometheus.Counter
	writable  prometheus.Gauge
	unaudited prometheus.Counter
	recorded  prometheus.Counter
	sweeps    *prometheus.CounterVec
	expired   prometheus.Counter
	secrets   *prometheus.CounterVec
	reloads   *prometheus.CounterVec
	expiry    prometheus.Gauge
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
		unaudited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "memoryd_audit_failures_total",
			Help: "Lines of the audit trail that could not be written.",
		}),
	}
	m.recorded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "memoryd_recorded_reads_total",
		Help: "Files of which it was recorded when they were viewed, at most once an hour each.",
	})
	m.sweeps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "memoryd_sweeps_total",
		Help: "Searches for files that expire, by result: ok or error.",
	}, []string{"result"})
	m.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "memoryd_expired_files_total",
		Help: "Files that were removed since nobody had viewed or changed them for long enough.",
	})
	for _, result := range []string{sweepOK, sweepError} {
		m.sweeps.WithLabelValues(result)
	}
	m.secrets = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "memoryd_secrets_found_total",
		Help: "Secrets found in texts that were written, or were to be, by rule and by what was done: written, masked or " +
			"refused.",
	}, []string{"rule", "done"})
	m.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "memoryd_reloads_total",
		Help: "Files that have changed and were loaded again, by what they are and by result: ok or error.",
	}, []string{"what", "result"})
	m.expiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "memoryd_tls_certificate_expiry_seconds",
		Help: "When the TLS certificate of the server expires, in seconds since 1970; 0 where there is none.",
	})
	for _, result := range []string{backupOK, backupError} {
		m.backups.WithLabelValues(result) // It starts at 0, so that rates are right from the first backup on.
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "memoryd_build_info",
		Help:        "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.recorded, m.sweeps, m.expired, m.secrets)
	m.registry.MustRegister(m.grpc, m.commands, m.repaired, m.backups, m.backedUp, m.gaveUp, m.writable, m.unaudited,
		m.reloads, m.expiry, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

// AuditFailed counts a line of the audit trail that could not be written.
func (m *Metrics) AuditFailed() { m.unaudited.Inc() }

// ReadsRecorded counts files of which it was recorded when they were viewed.
func (m *Metrics) ReadsRecorded(files int) { m.recorded.Add(float64(files)) }

// Results of a search for files that expire.
const (
	sweepOK    = "ok"
	sweepError = "error"
)

// Swept counts a search for files that expire.
func (m *Metrics) Swept(ok bool) {
	result := sweepOK
	if !ok {
		result = sweepError
	}
	m.sweeps.WithLabelValues(result).Inc()
}

// FilesExpired counts files that were removed since they expired.
func (m *Metrics) FilesExpired(files int) { m.expired.Add(float64(files)) }

// SecretFound counts a secret that was found by a rule, and what was done about it.
func (m *Metrics) SecretFound(rule, done string) { m.secrets.WithLabelValues(rule, done).Inc() }

// Results of a reload.
const (
	reloadOK    = "ok"
	reloadError = "error"
)

// Reloadable makes the counters of what can be reloaded start at 0, so that rates are right from the first time on.
func (m *Metrics) Reloadable(what string) {
	for _, result := range []string{reloadOK, reloadError} {
		m.reloads.WithLabelValues(what, result)
	}
}

// Reloaded counts files that were loaded again, or could not be.
func (m *Metrics) Reloaded(what string, ok bool) {
	result := reloadOK
	if !ok {
		result = reloadError
	}
	m.reloads.WithLabelValues(what, result).Inc()
}

// CertificateExpires notes when the certificate of the server expires.
func (m *Metrics) CertificateExpires(at time.Time) { m.expiry.Set(float64(at.Unix())) }

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
