package report

import (
	"strconv"
	"strings"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// table is a table of the report. Its first columns are words, the others numbers.
type table struct {
	title   string
	explain string
	words   int // columns
	header  []string
	rows    [][]string
}

// column is a metric as a column.
type column struct {
	metric trial.Metric
	header string
}

var compared = []column{
	{trial.Rate, "rate"},
	{trial.P50, "p50"},
	{trial.P99, "p99"},
	{trial.CPU, "CPU"},
	{trial.Allocs, "allocations"},
	{trial.AllocBytes, "allocated"},
	{trial.WrittenBytes, "written"},
}

var measured = []column{
	{trial.Rate, "calls/s"},
	{trial.P50, "p50"},
	{trial.P99, "p99"},
	{trial.CPU, "CPU"},
	{trial.Allocs, "allocations"},
	{trial.AllocBytes, "allocated"},
	{trial.Writes, "writes"},
	{trial.WrittenBytes, "written"},
	{trial.Syncs, "fsyncs"},
	{trial.Group, "group"},
	{trial.Growth, "growth"},
}

func headers(words []string, columns []column) []string {
	for _, c := range columns {
		words = append(words, c.header)
	}
	return words
}

// tables are those of the report, in their order: before anything is compared, how much two of the same differ.
func (r *Report) tables() []table { return []table{r.spreads(), r.targets(), r.ratios(), r.figures()} }

func (r *Report) spreads() table {
	t := table{
		title: "Control",
		explain: "Two servers of the same configuration, measured like all others: by how much the one differed from the " +
			"other in any round. A ratio that is no further from 1 is called the same.",
		words: 1, header: headers([]string{"work", "C"}, compared),
	}
	for _, c := range r.Cases {
		if _, ok := c.Spread(trial.Rate); !ok {
			continue
		}
		row := []string{c.Name, strconv.Itoa(c.Callers)}
		for _, column := range compared {
			row = append(row, orAbsent(spreadText)(c.Spread(column.metric)))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (r *Report) targets() table {
	t := table{
		title: "Targets", words: 1, header: []string{"work", "target", "measured", "control", "met"},
		explain: "C is how many call at once. A ratio is the median of those of the rounds. Where the target is no further " +
			"from the ratio than the control says, the benchmark cannot tell whether it is met.",
	}
	for _, c := range r.Checks {
		t.rows = append(t.rows, []string{c.Work, c.target(), c.measured(), c.control(), c.verdict()})
	}
	return t
}

// comparison is the first subject of a case over another.
type comparison struct {
	result           trial.Result
	first, reference string
	other            bool // they are two programs
}

func (r *Report) comparisons() []comparison {
	var all []comparison
	for _, c := range r.Cases {
		for i, s := range c.Subjects {
			if i > 0 && !strings.HasSuffix(s.Name, trial.Again) {
				all = append(all, comparison{c, c.Subjects[0].Name, s.Name, s.Other})
			}
		}
	}
	return all
}

func (r *Report) ratios() table {
	t := table{
		title: "Ratios", words: 1, header: headers([]string{"work", "C"}, compared),
		explain: "What comes first over what comes second. Above 1 a rate is better, and all else is worse.",
	}
	for _, c := range r.comparisons() {
		if _, ok := c.result.Ratio(c.first, c.reference, trial.Rate); !ok {
			continue
		}
		row := []string{c.result.Name + ": " + c.first + " over " + c.reference, strconv.Itoa(c.result.Callers)}
		for _, column := range compared {
			row = append(row, c.text(column.metric))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (c comparison) text(m trial.Metric) string {
	ratio, ok := c.result.Ratio(c.first, c.reference, m)
	if !ok {
		return absent
	}
	check := Check{Unit: Times, Measured: &ratio}
	if spread, ok := c.result.Spread(m); ok {
		check.Spread = &spread
	}
	return check.measured()
}

func (r *Report) figures() table {
	t := table{
		title: "Figures", words: 1, header: headers([]string{"work", "C"}, measured),
		explain: "Medians of the slices. CPU, allocations and what is allocated are the server's, a call; writes are " +
			"system calls that write to files, a call, and written is what they write; fsyncs are those of a commit; group is " +
			"how many calls share a commit; growth is that of the server's files, a call.",
	}
	for _, c := range r.Cases {
		for _, s := range c.Subjects {
			if _, ok := s.Figures[trial.Rate]; !ok {
				continue
			}
			row := []string{c.Name + ": " + s.Name, strconv.Itoa(c.Callers)}
			for _, column := range measured {
				value, ok := s.Figures[column.metric]
				row = append(row, orAbsent(func(v float64) string { return text(column.metric, v) })(value, ok))
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

// orAbsent is format, but for a value that is not there.
func orAbsent(format func(float64) string) func(float64, bool) string {
	return func(v float64, ok bool) string {
		if !ok {
			return absent
		}
		return format(v)
	}
}
