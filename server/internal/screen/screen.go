package screen

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
)

const (
	// scanLimit and scanLimitPerByte are the longest that a scan may take: ten times what notes about keys and tokens
	// take, and far more for small texts, since the machine may be busy with others.
	scanLimit        = 300 * time.Millisecond
	scanLimitPerByte = 500 * time.Nanosecond
	// maxGeneric is how many findings of ruleGeneric are enough, about: nobody reads more of them.
	maxGeneric = 1000
	// largeBytes is the size from which on a text has to wait for its turn: what is searched for a small edit has less.
	largeBytes = pieceBytes
)

// Finding is a place in a text that looks like a secret.
type Finding struct {
	// Rule is the id of the rule that found it: one of gitleaks' default configuration, or a constant of this package.
	Rule string
	// Line is the line in which the secret begins, from 1. A line ends at "\n" and nowhere else.
	Line int
	// Start and End are where the match is in the text, in bytes: the secret and what tells that it is one.
	Start, End int
	// SecretStart and SecretEnd are where the secret itself is.
	SecretStart, SecretEnd int
	// ReportOnly means that it may as well be a hash, a UUID, a number or a word.
	ReportOnly bool
	// Unsearched means that it is no finding: from Start on, there was no time to search the text. Rule is RuleUnsearched.
	Unsearched bool
}

// Screener finds secrets. It is safe for concurrent use.
type Screener struct {
	limit func(bytes int) time.Duration
	turns *turns
}

// New returns a Screener. Its rules are loaded in the background, for which the first Scan waits.
func New() *Screener {
	go func() { _, _ = load() }() // Scan returns the error
	limit := func(bytes int) time.Duration { return scanLimit + time.Duration(bytes)*scanLimitPerByte }
	return &Screener{limit: limit, turns: newTurns(runtime.GOMAXPROCS(0))}
}

// WithLimit returns a Screener whose scans may take as long as that, whatever the size of the text.
func (s *Screener) WithLimit(limit time.Duration) *Screener {
	return &Screener{limit: func(int) time.Duration { return limit }, turns: s.turns}
}

// Turn waits until a namespace may have a text of a size in bytes scanned, which a small one may at once. end must be
// called once it is. An error is the context's; nothing that need not wait has one.
func (s *Screener) Turn(ctx context.Context, namespace string, size int) (end func(), err error) {
	if size < largeBytes {
		return func() {}, nil
	}
	if err := s.turns.take(ctx, namespace); err != nil {
		return nil, err
	}
	return func() { s.turns.give(namespace) }, nil
}

var errPanicked = errors.New("a rule for secrets panicked")

// Scan returns what looks like a secret in a text, in the order of the places. The text may have bytes that are not
// UTF-8. The time that it may take depends on the size of the text alone. An error is the context's, or says that the
// rules could not be loaded, which never happens, or that one of them panicked: what that says could be the text, so
// that it is not told. It is to be called in a Turn.
func (s *Screener) Scan(ctx context.Context, text string) (findings []Finding, err error) {
	defer func() {
		if recover() != nil {
			findings, err = nil, errPanicked
		}
	}()
	all, err := load()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.limit(len(text)))
	defer cancel()
	found, searched := scan(limited, text, span{0, len(text)}, all.rules)
	if searched < len(text) {
		found = append(found, Finding{
			Rule: RuleUnsearched, Start: searched, End: len(text), SecretStart: searched, SecretEnd: len(text),
			Unsearched: true,
		})
	}
	var generic []Finding
	for part := range genericSpans(text, all.generic.words) {
		more, _ := scan(limited, text, part, all.generic)
		if generic = append(generic, more...); len(generic) >= maxGeneric || limited.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return settle(text, found, generic), nil
}

// scan searches a part of a text, piece by piece until ctx is done, and tells up to where it has searched.
func scan(ctx context.Context, text string, part span, d detector) (found []Finding, searched int) {
	for p := range pieces(text, part) {
		searched = p.start
		if d.words.in(text[p.start:p.end]) {
			found = append(found, d.detect(ctx, text, p)...)
		}
		if ctx.Err() != nil { // The detector leaves out rules then.
			return found, searched
		}
	}
	return found, part.end
}

// detect searches a piece of a text.
func (d detector) detect(ctx context.Context, text string, p piece) (found []Finding) {
	fragment := detect.Fragment{Raw: text[p.start:p.end]} //nolint:staticcheck // Its successor is for the next version.
	for _, f := range d.DetectContext(ctx, fragment) {
		if f, ok := locate(text, p, f, d.Config.Rules[f.RuleID]); ok {
			found = append(found, f)
		}
	}
	return found
}

// locate finds where in the text a finding of the detector is. It is not ok where there is nothing to tell.
func locate(text string, p piece, f report.Finding, rule config.Rule) (Finding, bool) {
	start := p.start + matchOffset(text[p.start:p.end], f)
	end := start + len(f.Match)
	if slices.Contains(wholeMatches, f.RuleID) {
		f.Secret = f.Match
	}
	if !p.sees(start, end) || isExample(f.Secret) {
		return Finding{}, false
	}
	found := Finding{
		Rule: f.RuleID, Start: start, End: end, SecretStart: start, SecretEnd: end,
		ReportOnly: f.RuleID == ruleGeneric || ordinary.MatchString(f.Secret),
	}
	// The detector tells the secret and not where it is, and the same text may stand in the match twice.
	groups := rule.Regex.FindStringSubmatchIndex(f.Match)
	for i := 2; i < len(groups); i += 2 {
		if groups[i] >= 0 && f.Match[groups[i]:groups[i+1]] == f.Secret {
			found.SecretStart, found.SecretEnd = start+groups[i], start+groups[i+1]
			break
		}
	}
	return found, true
}

// matchOffset is where the match of a finding begins in what the detector was given. The detector counts lines from 0,
// and columns from 1; to all lines but the first belongs the newline before them.
func matchOffset(piece string, f report.Finding) int {
	line := 0
	for i := range f.StartLine {
		line += strings.IndexByte(piece[line+min(i, 1):], '\n') + min(i, 1)
	}
	at := line + f.StartColumn - 1
	if !strings.HasPrefix(piece[at:], f.Match) { // It begins with newlines, which no rule does, and is told without them.
		return strings.Index(piece, f.Match)
	}
	return at
}

// settle puts findings in order and counts their lines. It leaves out those that two pieces have both found, and those
// of ruleGeneric where another rule knows better.
func settle(text string, found, generic []Finding) []Finding {
	for _, g := range generic {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Start < g.SecretEnd && g.SecretStart < f.End }) {
			found = append(found, g)
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.SecretStart, b.SecretStart), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(b.SecretEnd, a.SecretEnd))
	})
	found = slices.CompactFunc(found, func(a, b Finding) bool {
		return a.SecretStart == b.SecretStart && a.Rule == b.Rule
	})
	line, counted := 1, 0
	for i := range found {
		line += strings.Count(text[counted:found[i].SecretStart], "\n")
		counted = found[i].SecretStart
		found[i].Line = line
	}
	return found
}
