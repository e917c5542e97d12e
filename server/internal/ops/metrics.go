// Package ops is the side port of memoryd: an HTTP server for operators, with metrics, liveness and readiness.
//
// Metrics never carry the name of a namespace, a path, or anything else that callers choose: their labels are of small
// fixed sets.
package ops

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// handlingBuckets are the bounds of the histogram of how long calls took, in seconds: from a read of the page cache to
// the default call timeout.
var handlingBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Results of what is counted by result.
const (
	resultOK    = "ok"
	resultError = "error"
)

func result(ok bool) string {
	if ok {
		return resultOK
	}
	return resultError
}

// storeBuckets are the bounds of the histograms of how long commits and searches of texts took, in seconds.
var storeBuckets = []float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}

// sweepBuckets are the bounds of the histogram of how long searches for files that expire took, in seconds.
var sweepBuckets = []float64{0.01, 0.1, 1, 10, 60, 600}

// Metrics is what one server counts, in a registry of its own.
type Metrics struct {
	registry *prometheus.Registry
	calls    *calls

	commands *prometheus.CounterVec
	repaired *prometheus.CounterVec
	secrets  *prometheus.CounterVec
	replayed prometheus.Counter
	gaveUp   prometheus.Counter

	writable prometheus.Gauge
	damaged  prometheus.Gauge
	backups  *prometheus.CounterVec
	backedUp prometheus.Gauge
	reads    prometheus.Counter
	sweeps   *prometheus.CounterVec
	swept    prometheus.Gauge
	sweep    prometheus.Histogram
	unswept  prometheus.Gauge
	expired  prometheus.Counter
	dataKeys *prometheus.GaugeVec
	screened prometheus.Histogram

	commitUpdates prometheus.Histogram
	commitTook    prometheus.Histogram
	commitWrite   prometheus.Histogram
	writeCalls    prometheus.Counter
	writtenBytes  prometheus.Counter

	reloads     *prometheus.CounterVec
	failing     *prometheus.GaugeVec
	certificate prometheus.Gauge
	handshakes  prometheus.Counter
	strangers   prometheus.Counter
	unaudited   prometheus.Counter
}

// NewMetrics returns the metrics of a server of a version.
func NewMetrics(version string) *Metrics {
	registry := prometheus.NewRegistry()
	auto := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return auto.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		registry: registry,
		calls:    newCalls(registry),

		commands: counters("memoryd_commands_total",
			"Commands that were answered, by command and by why they failed; ok is success.", "command", "reason"),
		repaired: counters("memoryd_repaired_inputs_total",
			"Slips of models in the input of commands that were put right, by kind.", "kind"),
		secrets: counters("memoryd_secrets_found_total",
			"Secrets found in texts that were written, or were to be, by rule and by what was done: written, masked or "+
				"refused.", "rule", "done"),
		replayed: counter("memoryd_replayed_requests_total",
			"Requests that were answered with their recorded response, since they came again."),
		gaveUp: counter("memoryd_requests_given_up_total",
			"Calls that were ended before the whole of their request had come."),

		writable: gauge("memoryd_store_writable", "1 where the store takes writes, 0 where it can only be read."),
		damaged: gauge("memoryd_data_damaged",
			"1 from the first call on that met damaged data, until a restart; 0 where none has."),
		backups: counters("memoryd_backups_total", "Scheduled backups, by result: ok or error.", "result"),
		backedUp: gauge("memoryd_backup_last_success_timestamp_seconds",
			"When the newest scheduled backup was made, in seconds since 1970; 0 where there is none."),
		reads: counter("memoryd_recorded_reads_total",
			"Files of which it was recorded when they were viewed, at most once an hour each."),
		sweeps: counters("memoryd_sweeps_total", "Searches for files that expire, by result: ok or error.", "result"),
		swept: gauge("memoryd_sweep_last_success_timestamp_seconds",
			"When the last search for files that expire ended well, in seconds since 1970; 0 where none has."),
		sweep: histogram("memoryd_sweep_seconds", "How long searches for files that expire took.", sweepBuckets),
		unswept: gauge("memoryd_sweep_unfinished",
			"1 where the last search for files that expire left files for the next one, which follows at once; else 0."),
		expired: counter("memoryd_expired_files_total",
			"Files that were removed since nobody had viewed or changed them for long enough."),
		dataKeys: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "memoryd_data_keys",
			Help: "Data keys of namespaces in the last rotation of the keyset, by state: rewrapped by the primary key, " +
				"waiting, or failed, since they are damaged.",
		}, []string{"state"}),
		screened: histogram("memoryd_screening_seconds", "How long texts were searched for secrets, each.", storeBuckets),

		commitUpdates: histogram("memoryd_store_commit_updates",
			"Updates that shared a commit of the store; their sum is the updates, and their count the commits.",
			prometheus.ExponentialBuckets(1, 2, 11)),
		commitTook: histogram("memoryd_store_commit_seconds", "How long commits of the store took.", storeBuckets),
		commitWrite: histogram("memoryd_store_write_seconds",
			"How long it took in a commit to write pages to the disk and to sync them, which is done twice.", storeBuckets),
		writeCalls:   counter("memoryd_store_write_calls_total", "Writes of pages to the disk."),
		writtenBytes: counter("memoryd_store_written_bytes_total", "Bytes of pages that were written to the disk."),

		reloads: counters("memoryd_reloads_total",
			"How often files were loaded again, since they had changed or somebody asked for it (SIGHUP), by what they are "+
				"and by result: ok or error. What is tried again by itself and fails as before is not counted.",
			"what", "result"),
		failing: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "memoryd_reload_failing",
			Help: "1 where files could not be loaded again and what they held before is in force, else 0, by what they are.",
		}, []string{"what"}),
		certificate: gauge("memoryd_tls_certificate_expiry_seconds",
			"When the TLS certificate of the server expires, in seconds since 1970; 0 where there is none."),
		handshakes: counter("memoryd_tls_handshake_failures_total",
			"TLS handshakes of connections for calls that failed."),
		strangers: counter("memoryd_authentication_failures_total",
			"Calls, and requests to the side port, whose credential was missing or not valid."),
		unaudited: counter("memoryd_audit_failures_total", "Lines of the audit trail that could not be written."),
	}
	for _, byResult := range []*prometheus.CounterVec{m.backups, m.sweeps} {
		startAtZero(byResult)
	}
	auto.NewGauge(prometheus.GaugeOpts{
		Name:        "memoryd_build_info",
		Help:        "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// startAtZero makes the counters of both results start at 0, so that rates are right from the first time on.
func startAtZero(byResult *prometheus.CounterVec, labels ...string) {
	for _, r := range []string{resultOK, resultError} {
		byResult.WithLabelValues(append(labels, r)...)
	}
}

// Command counts a command that was answered.
func (m *Metrics) Command(name, reason string) { m.commands.WithLabelValues(name, reason).Inc() }

// Repaired counts a slip that was put right.
func (m *Metrics) Repaired(kind string) { m.repaired.WithLabelValues(kind).Inc() }

// BackupMade counts a scheduled backup that was made.
func (m *Metrics) BackupMade() { m.backups.WithLabelValues(resultOK).Inc() }

// BackupFailed counts a scheduled backup that was not made.
func (m *Metrics) BackupFailed() { m.backups.WithLabelValues(resultError).Inc() }

// NewestBackup notes when the newest scheduled backup was made.
func (m *Metrics) NewestBackup(at time.Time) { m.backedUp.Set(float64(at.Unix())) }

// Replayed counts a request that was answered with its recorded response.
func (m *Metrics) Replayed() { m.replayed.Inc() }

// RequestGivenUp counts a call whose request did not come in time.
func (m *Metrics) RequestGivenUp() { m.gaveUp.Inc() }

// AuditFailed counts a line of the audit trail that could not be written.
func (m *Metrics) AuditFailed() { m.unaudited.Inc() }

// ReadsRecorded counts files of which it was recorded when they were viewed.
func (m *Metrics) ReadsRecorded(files int) { m.reads.Add(float64(files)) }

// Swept counts a search for files that expire, which ended at a time and took some. more tells whether it left files
// for the next one.
func (m *Metrics) Swept(ok, more bool, at time.Time, took time.Duration) {
	m.sweeps.WithLabelValues(result(ok)).Inc()
	m.sweep.Observe(took.Seconds())
	m.unswept.Set(truth(more))
	if ok {
		m.swept.Set(float64(at.Unix()))
	}
}

// FilesExpired counts files that were removed since they expired.
func (m *Metrics) FilesExpired(files int) { m.expired.Add(float64(files)) }

// SecretFound counts a secret that was found by a rule, and what was done about it.
func (m *Metrics) SecretFound(rule, done string) { m.secrets.WithLabelValues(rule, done).Inc() }

// SecretsAtZero makes the counters of what may be done about secrets start at 0 for rules, so that the first secret of
// a rule is an increase.
func (m *Metrics) SecretsAtZero(rules []string, done string) {
	for _, rule := range rules {
		m.secrets.WithLabelValues(rule, done)
	}
}

// Screened counts a text that was searched for secrets.
func (m *Metrics) Screened(took time.Duration) { m.screened.Observe(took.Seconds()) }

// DataKeys notes how far a rotation of the keyset has come.
func (m *Metrics) DataKeys(rewrapped, waiting, failed int) {
	m.dataKeys.WithLabelValues("rewrapped").Set(float64(rewrapped))
	m.dataKeys.WithLabelValues("waiting").Set(float64(waiting))
	m.dataKeys.WithLabelValues("failed").Set(float64(failed))
}

// Reloadable makes the metrics of what can be reloaded start at 0, so that rates are right from the first time on.
func (m *Metrics) Reloadable(what string) {
	startAtZero(m.reloads, what)
	m.ReloadFailing(what, false)
}

// ReloadFailing notes whether files could not be loaded again.
func (m *Metrics) ReloadFailing(what string, yes bool) {
	m.failing.WithLabelValues(what).Set(truth(yes))
}

// HandshakeFailed counts a TLS handshake that failed.
func (m *Metrics) HandshakeFailed() { m.handshakes.Inc() }

// AuthenticationFailed counts a call, or a request to the side port, whose caller is not known.
func (m *Metrics) AuthenticationFailed() { m.strangers.Inc() }

// Reloaded counts files that were loaded again, or could not be.
func (m *Metrics) Reloaded(what string, ok bool) { m.reloads.WithLabelValues(what, result(ok)).Inc() }

// CertificateExpires notes when the certificate of the server expires.
func (m *Metrics) CertificateExpires(at time.Time) { m.certificate.Set(float64(at.Unix())) }

// StoreWritable notes whether the store takes writes.
func (m *Metrics) StoreWritable(yes bool) { m.writable.Set(truth(yes)) }

// DataDamaged notes that a call has met damaged data, for good.
func (m *Metrics) DataDamaged() { m.damaged.Set(1) }

// truth is the value of a gauge that is 1 or 0.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Gatherer returns what gathers all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
