package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/screen"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// screener is what finds secrets for package memory.
type screener struct {
	rules   *screen.Screener
	metrics *ops.Metrics
}

// newScreener returns a screener whose rules are loaded in the background. Once they are, the counters of secrets that
// are written start at 0, which alerts need. Those of what is masked or refused begin with the first secret: there are
// some 200 rules.
func newScreener(metrics *ops.Metrics) screener {
	go func() {
		if rules, err := screen.Rules(); err == nil { // Scan returns the error.
			metrics.SecretsAtZero(rules, secretDone(memory.SecretsReport))
		}
	}()
	return screener{screen.New(), metrics}
}

// Turn implements memory.Screener.
func (s screener) Turn(ctx context.Context, namespace string, size int) (end func(), err error) {
	return s.rules.Turn(ctx, namespace, size)
}

// Scan implements memory.Screener.
func (s screener) Scan(ctx context.Context, text string) ([]memory.SecretFinding, error) {
	began := time.Now()
	found, err := s.rules.Scan(ctx, text)
	s.metrics.Screened(time.Since(began))
	if err != nil {
		return nil, err
	}
	var findings []memory.SecretFinding
	for _, f := range found {
		findings = append(findings, memory.SecretFinding(f))
	}
	return findings, nil
}

// maxSecretLines is the most lines that the log gets for the secrets of one call.
const maxSecretLines = 10

// secretReporter logs and counts the secrets that calls write, or would have written.
type secretReporter struct {
	logger  *slog.Logger
	metrics *ops.Metrics
}

// report is the Report of memory.Options. A line of the log stands for all that one rule found in one file.
func (r secretReporter) report(ctx context.Context, namespace string, found []memory.SecretReport) {
	type kind struct {
		path, rule string
		done       memory.SecretsPolicy
	}
	counts := make(map[kind]int)
	for _, f := range found {
		counts[kind{f.Path, f.Rule, f.Done}]++
		r.metrics.SecretFound(f.Rule, secretDone(f.Done))
	}
	lines := 0
	for _, f := range found {
		k := kind{f.Path, f.Rule, f.Done}
		n, ok := counts[k]
		if !ok {
			continue
		}
		delete(counts, k)
		if lines++; lines > maxSecretLines {
			r.logger.InfoContext(ctx, "more secrets", "namespace", namespace, "kinds", len(counts)+1)
			return
		}
		r.logger.InfoContext(ctx, "secret", "namespace", namespace, "path", f.Path, "rule", f.Rule, "line", f.Line,
			"count", n, "done", secretDone(f.Done))
	}
}

// secretDone is what was done about a secret, as metrics and logs have it.
func secretDone(p memory.SecretsPolicy) string {
	switch p {
	case memory.SecretsMask:
		return "masked"
	case memory.SecretsRefuse:
		return "refused"
	default:
		return "written"
	}
}
