package report

import (
	"fmt"
	"os"
	"strings"
)

// Markers of the part of a file that WriteMarkdown writes.
const (
	BeginMarker = "<!-- benchmark -->"
	EndMarker   = "<!-- /benchmark -->"
)

// WriteMarkdown writes the report as Markdown between the markers of a file.
func (r *Report) WriteMarkdown(file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	before, rest, found := strings.Cut(string(old), BeginMarker)
	_, after, ended := strings.Cut(rest, EndMarker)
	if !found || !ended {
		return fmt.Errorf("write report: %s has no lines %s and %s, between which it belongs", file, BeginMarker, EndMarker)
	}
	return writeFile(file, []byte(before+BeginMarker+"\n"+r.markdown()+EndMarker+after))
}

func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintln(&b, strings.Join(r.heading(), "\n"))
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n> %s\n", note)
	}
	for _, t := range r.tables() {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", t.title, t.explain)
		line := func(cells []string) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		line(t.header)
		rule := make([]string, len(t.header))
		for i := range rule {
			rule[i] = "---:"
			if i < t.words {
				rule[i] = "---"
			}
		}
		line(rule)
		for _, row := range t.rows {
			line(row)
		}
	}
	return b.String()
}
