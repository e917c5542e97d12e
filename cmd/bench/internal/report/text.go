package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text prints the report for people.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.heading() {
		fmt.Fprintln(&b, line)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "*** %s ***\n", note)
	}
	for _, t := range r.tables() {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s. %s\n", t.title, t.explain)
		columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, strings.ToUpper(strings.Join(t.header, "\t")))
		for _, row := range t.rows {
			fmt.Fprintln(columns, strings.Join(row, "\t"))
		}
		if err := columns.Flush(); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// heading says when, where and how it was measured.
func (r *Report) heading() []string {
	machine := fmt.Sprintf("%s, %d CPUs that servers and callers share", r.Machine.System, r.Machine.CPUs)
	if r.Machine.FileSystem != "" {
		machine += ", data on " + r.Machine.FileSystem
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+": "+r.Versions[name])
	}
	return []string{
		fmt.Sprintf("Measured %s on %s.", r.Time.Format("2006-01-02"), machine),
		fmt.Sprintf("%d slices of %s each, in an order of seed %d.", r.Slices, secondsText(r.SliceSeconds), r.Seed),
		strings.Join(versions, "; ") + ".",
	}
}
