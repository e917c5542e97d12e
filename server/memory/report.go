package memory

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// turnPatience is how long the answer to a change waits for the turn of its texts, all together, where secrets are only
// reported.
const turnPatience = 100 * time.Millisecond

// errNoTurn means that a text has to wait longer than that.
var errNoTurn = errors.New("others are searched for secrets")

// impatient is a Screener for whom nobody waits longer than until then.
type impatient struct {
	Screener
	until time.Time
}

// Turn implements Screener.
func (i impatient) Turn(ctx context.Context, namespace string, size int) (end func(), err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, i.until, errNoTurn)
	defer cancel()
	if end, err = i.Screener.Turn(ctx, namespace, size); err != nil && errors.Is(context.Cause(ctx), errNoTurn) {
		err = errNoTurn
	}
	return end, err
}

// reportSecrets tells of the secrets in the texts of a transaction that had an error or not. The texts that were only
// to be reported are searched now, also for a caller who has gone; or behind the answer, where others are searched now.
func (m *Memory) reportSecrets(ctx context.Context, namespace string, s *screening, err error) {
	if s == nil || m.report == nil || len(s.texts) == 0 {
		return
	}
	var f *failure
	switch {
	case err == nil || errors.Is(err, kv.ErrUnknown):
	case errors.As(err, &f) && f.reason == ReasonSecretRefused:
	default:
		return
	}
	ctx = context.WithoutCancel(ctx)
	screener := impatient{m.screener, time.Now().Add(turnPatience)}
	var reports []SecretReport
	var late []screenedText
	for _, text := range s.texts {
		if text.verdict == nil {
			if err := text.search(ctx, screener, namespace); errors.Is(err, errNoTurn) {
				late = append(late, text)
				continue
			}
		}
		reports = append(reports, text.reports(f != nil)...)
	}
	if len(reports) > 0 {
		m.report(ctx, namespace, reports)
	}
	m.reportLate(ctx, namespace, late)
}

// reportLate tells of the secrets in texts behind the answer.
func (m *Memory) reportLate(ctx context.Context, namespace string, texts []screenedText) {
	if len(texts) == 0 {
		return
	}
	search := func(searching context.Context) {
		var reports []SecretReport
		for _, text := range texts {
			if searching.Err() != nil {
				text.verdict = unsearched()
			} else {
				_ = text.search(searching, m.screener, namespace) // Nobody waits for it.
			}
			reports = append(reports, text.reports(false)...)
		}
		if len(reports) > 0 {
			m.report(ctx, namespace, reports)
		}
	}
	late := lateSearch{namespace: namespace, search: search}
	for _, text := range texts {
		late.bytes += text.window.held()
	}
	if !m.backlog.add(late) {
		none, cancel := context.WithCancel(ctx)
		cancel()
		search(none)
	}
}

// EndReports gives up the searches behind the answers, and waits until they have ended. It is called after the last
// command has ended.
func (m *Memory) EndReports() { m.backlog.end() }

// search finds what there is to report of a text. Where it cannot be searched, that is what there is to report. The
// error is errNoTurn.
func (text *screenedText) search(ctx context.Context, screener Screener, namespace string) error {
	found, err := newScanner(screener, namespace, text.window.change).scan(ctx, text.window.change)
	switch {
	case errors.Is(err, errNoTurn):
		return err
	case err != nil:
		text.verdict = unsearched()
	default:
		text.verdict = &verdict{doubtful: found}
	}
	return nil
}

// reports are what there is to tell of a text.
func (text screenedText) reports(refused bool) []SecretReport {
	var reports []SecretReport
	tell := func(found []SecretFinding, done SecretsPolicy) {
		for _, f := range found {
			reports = append(reports, SecretReport{text.path.String(), f.Rule, text.window.line(f.Line), done})
		}
	}
	if refused {
		tell(text.verdict.secrets, SecretsRefuse)
		return reports
	}
	tell(text.verdict.secrets, SecretsMask)
	tell(text.verdict.doubtful, SecretsReport)
	return reports
}
