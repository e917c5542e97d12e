package main

import (
	"fmt"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/report"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Names of cases.
const (
	caseView             = "view"
	caseCreate           = "create"
	caseEdit             = "str_replace in 1 MB"
	caseList             = "list"
	caseCold             = "list, cold"
	caseToolView         = "view, as the tool"
	caseToolList         = "list 100, as the tool"
	caseToolCreate       = "create, as the tool"
	caseScaleView        = "view by files"
	caseScaleCreate      = "create by files"
	caseNamespacesView   = "view by namespaces"
	caseNamespacesCreate = "create by namespaces"
	caseIdle             = "idle"
)

// kib is a KiB in bytes.
const kib = 1 << 10

// checks holds a report against the targets of the project.
func checks(r *report.Report) []report.Check {
	t := &targets{report: r}
	for _, callers := range []int{1, 8, 64} {
		echo := t.pair(caseView, callers, nameMemoryd, nameEcho)
		echo.ratio("View over a bare RPC, p50", trial.P50, report.AtMost, 1.35)
		echo.ratio("View over a bare RPC, CPU", trial.CPU, report.AtMost, 1.4)
		echo.difference("View over a bare RPC, allocations", trial.Allocs, report.AtMost, 20)
	}
	for _, callers := range []int{1, 8, 64} {
		t.pair(caseView, callers, nameMemoryd, nameEtcd).
			ratio("View over etcd's linearizable get, rate", trial.Rate, report.AtLeast, 1.2)
	}
	for _, subject := range []struct{ work, name string }{
		{"Create, one namespace", nameShared}, {"Create, a namespace each", nameMemoryd},
	} {
		t.create(subject.work, subject.name)
	}
	for _, target := range []struct {
		name, work string
		limit      float64
	}{
		{caseToolView, "View over the TypeScript tool, rate", 4},
		{caseToolList, "Listing 100 files over the TypeScript tool, rate", 20},
		{caseToolCreate, "Create over the TypeScript tool, rate", 1},
	} {
		t.pair(target.name, toolCallers, nameMemoryd, nameTool).
			ratio(target.work, trial.Rate, report.AtLeast, target.limit)
	}
	t.pair(caseList, 1, nameMany, nameFew).ratio("Listing 2,000 files over 20, p50", trial.P50, report.AtMost, 8)
	t.pair(caseList, 1, nameBelow, nameFew).
		ratio("Listing with 2,000 files below level two, p50", trial.P50, report.AtMost, 1.2)
	t.pair(caseCold, 1, nameColdLarge, nameColdSmall).
		ratio("Cold listing of files of 16 KB over 2 KB, bytes read", trial.ReadBytes, report.AtMost, 1.2)

	t.pair(caseScaleCreate, scaleCallers, nameLargeStore, nameSmallStore).
		ratio("Create at 10^6 files over 10^4, rate", trial.Rate, report.AtLeast, 0.6)
	t.pair(caseScaleView, scaleCallers, nameLargeStore, nameSmallStore).
		ratio("View at 10^6 files over 10^4, p50", trial.P50, report.AtMost, 1.25)
	t.pair(caseScaleCreate, scaleCallers, nameLargeStore, nameSmallStore).
		ratio("Create at 10^6 files over 10^4, bytes written", trial.WrittenBytes, report.AtMost, 1.25)
	for _, name := range []string{caseNamespacesView, caseNamespacesCreate} {
		work := fmt.Sprintf("10^5 namespaces over one, rate of %s", name[:len(name)-len(" by namespaces")])
		t.pair(name, scaleCallers, nameManyNamespaces, nameOne).ratio(work, trial.Rate, report.Same, 0)
	}
	t.pair(caseEdit, 1, nameMemoryd, "").
		share("str_replace in a file of 1 MB, bytes written over its size", trial.WrittenBytes, editBytes, report.AtMost, 1.3)
	idle := t.pair(caseIdle, 0, nameLargeStore, "")
	idle.figure("Idle at 10^6 files, anonymous memory", trial.AnonBytes, report.AtMost, 64*kib*kib, report.Bytes)
	idle.figure("Start at 10^6 files", trial.Start, report.AtMost, 0.05, report.Seconds)
	return t.checks
}

// targets collects checks of a report.
type targets struct {
	report *report.Report
	checks []report.Check
}

// create adds the checks of creates for a subject of theirs.
func (t *targets) create(work, subject string) {
	const callers = 64
	figures := t.pair(caseCreate, callers, subject, "")
	figures.figure(work+", bytes written", trial.WrittenBytes, report.AtMost, 15*kib, report.Bytes)
	figures.figure(work+", write calls", trial.Writes, report.AtMost, 3, report.Count)
	figures.figure(work+", calls that share a commit", trial.Group, report.AtLeast, 0.7*callers, report.Count)
	figures.figure(work+", fsyncs of a commit", trial.Syncs, report.AtMost, 2, report.Count)
	for _, target := range []struct {
		callers   int
		reference string
		limit     float64
	}{
		{1, nameRaw, 0.7},
		{8, nameRaw, 0.5},
		{64, nameRaw, 0.5},
		{256, nameRaw, 0.6},
		{64, nameEtcd, 1},
		{256, nameEtcd, 1},
	} {
		t.pair(caseCreate, target.callers, subject, target.reference).
			ratio(work+", over "+target.reference+", rate", trial.Rate, report.AtLeast, target.limit)
	}
}

// pair is a subject of a case and what it is compared with.
type pair struct {
	*targets
	result             trial.Result
	subject, reference string
}

func (t *targets) pair(name string, callers int, subject, reference string) pair {
	result, ok := t.report.Case(name, callers)
	if !ok {
		result.Callers = callers
	}
	return pair{t, result, subject, reference}
}

// ratio adds a check of a ratio.
func (p pair) ratio(work string, m trial.Metric, bound report.Bound, limit float64) {
	c := report.Check{Bound: bound, Limit: limit, Unit: report.Times}
	if ratio, ok := p.result.Ratio(p.subject, p.reference, m); ok {
		c.Measured = &ratio
		if spread, ok := p.result.Spread(m); ok {
			c.Spread = &spread
		}
	}
	p.add(work, c)
}

// figure adds a check of a figure of the subject.
func (p pair) figure(work string, m trial.Metric, bound report.Bound, limit float64, unit report.Unit) {
	c := report.Check{Bound: bound, Limit: limit, Unit: unit}
	if value, ok := p.figureOf(p.subject, m); ok {
		c.Measured = &value
	}
	p.add(work, c)
}

// share adds a check of a figure of the subject over a number.
func (p pair) share(work string, m trial.Metric, of float64, bound report.Bound, limit float64) {
	c := report.Check{Bound: bound, Limit: limit, Unit: report.Times}
	if value, ok := p.figureOf(p.subject, m); ok {
		value /= of
		c.Measured = &value
	}
	p.add(work, c)
}

// difference adds a check of how much more a figure of the subject is than that of its reference.
func (p pair) difference(work string, m trial.Metric, bound report.Bound, limit float64) {
	c := report.Check{Bound: bound, Limit: limit, Unit: report.Count}
	value, ok := p.figureOf(p.subject, m)
	reference, referenceOK := p.figureOf(p.reference, m)
	if ok && referenceOK {
		value -= reference
		c.Measured = &value
	}
	p.add(work, c)
}

func (p pair) figureOf(subject string, m trial.Metric) (float64, bool) {
	s, ok := p.result.Subject(subject)
	if !ok {
		return 0, false
	}
	value, ok := s.Figures[m]
	return value, ok
}

func (p pair) add(work string, c report.Check) {
	c.Work = work
	if p.result.Callers > 0 {
		c.Work += fmt.Sprintf(", C=%d", p.result.Callers)
	}
	c.Judge()
	p.checks = append(p.checks, c)
}
