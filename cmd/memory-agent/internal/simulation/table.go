package simulation

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// WriteTable writes the report for people: what was played, the grid, and how to read it.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	b.WriteString("\n")
	if text := r.unreached(); text != "" {
		_, err := io.WriteString(w, b.String()+text)
		return err
	}
	r.writeGrid(&b)
	b.WriteString("\n" + r.columns())
	if len(r.Variations) > 0 {
		b.WriteString("\n")
		r.writeVariations(&b)
	}
	b.WriteString("\n" + r.explanation())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	if g := r.Generated; g != nil {
		fmt.Fprintf(b, "Generated web research: %d turns, seed %d, results of %s tokens in all.\n",
			g.Turns, g.Seed, thousands(g.ResultTokens))
	} else {
		fmt.Fprintf(b, "Recorded run: %d requests to %q.\n", r.Rows[0].Requests, r.Recorded.Model)
	}
	if n := r.Rows[0].Exhausted; n > 0 {
		fmt.Fprintf(b, "Without clearing, request %d is the first of more than %s tokens: with a\n"+
			"context window of that size the run would end there.\n", n, thousands(ContextWindow))
	}
}

// unreached says what to do where no prompt was large enough for any trigger, so that all rows are the same; else it is
// empty.
func (r *Report) unreached() string {
	peak, lowest := r.Rows[0].PeakTokens, 0
	for _, s := range r.Rows {
		if s.Trigger > 0 && (lowest == 0 || s.Trigger < lowest) {
			lowest = s.Trigger
		}
	}
	if peak > lowest { // there is no trigger where it is 0
		return ""
	}
	return fmt.Sprintf("The largest prompt had %s: no trigger was reached.\nTry --trigger %d,%d\n",
		count(peak, "token", "tokens"), roundDown(peak/4), roundDown(peak/2))
}

// roundDown makes a number a round one that is not larger, with two digits that are not 0. It is 1 at least.
func roundDown(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return max(n/unit*unit, 1)
}

// newTable returns a writer of columns that are flush right.
func newTable(b *strings.Builder) *tabwriter.Writer {
	return tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// row writes a row of a table.
func row(w *tabwriter.Writer, cells ...string) {
	fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
}

func (r *Report) writeGrid(b *strings.Builder) {
	w := newTable(b)
	head := []string{"TRIGGER", "KEEP", "REQUESTS", "TOKENS", "PEAK", "SAVED", "CLEARINGS"}
	if r.Generated != nil {
		head = append([]string{"MEMORY"}, head...)
		head = append(head, "NEEDED", "NOTED")
	}
	row(w, append(head, "AGAIN", "COST", "SAVED")...)
	for _, s := range r.Rows {
		cells := []string{
			"none", "", thousands(s.Requests), thousands(s.InputTokens), thousands(s.PeakTokens),
			percent(s.Saved), thousands(s.Clearings),
		}
		if s.Trigger > 0 {
			cells[0], cells[1] = thousands(s.Trigger), strconv.Itoa(s.Keep)
		}
		if r.Generated != nil {
			cells = append([]string{yes(s.Memory)}, cells...)
			cells = append(cells, thousands(s.NeededAgain), thousands(s.InMemory))
		}
		row(w, append(cells, thousands(s.SearchedAgain), thousands(s.CachedCost), percent(s.CachedSaved))...)
	}
	_ = w.Flush() // to memory
}

func (r *Report) writeVariations(b *strings.Builder) {
	fmt.Fprintf(b, "What would change it, at a trigger of %s, keeping %d, with memory:\n\n",
		thousands(r.Variations[0].Trigger), r.Variations[0].Keep)
	w := newTable(b)
	row(w, "", "REQUESTS", "TOKENS", "SAVED", "CLEARINGS", "NEEDED", "NOTED", "AGAIN", "COST", "SAVED")
	for _, v := range r.Variations {
		row(w, v.Name, thousands(v.Requests), thousands(v.InputTokens), percent(v.Saved), thousands(v.Clearings),
			thousands(v.NeededAgain), thousands(v.InMemory), thousands(v.SearchedAgain),
			thousands(v.CachedCost), percent(v.CachedSaved))
	}
	_ = w.Flush() // to memory
}

// columns says what the columns are.
func (r *Report) columns() string {
	if r.Generated == nil {
		return `TOKENS     what the model is shown in all requests together; PEAK in the largest
SAVED      less than without clearing
CLEARINGS  requests in which results are missing that were there before
AGAIN      calls that had been made before in the same way, and whose earlier
           result is cleared: so it was, or seemed, needed again
COST       of these tokens with prompt caching, in tokens at the full price
`
	}
	return `TOKENS     what the model is shown in all requests together; PEAK in the largest
SAVED      less than in the first row
CLEARINGS  requests in which results are missing that were there before
NEEDED     how often something of a cleared result was needed: NOTED in memory
           before, or else looked up AGAIN, in a request of its own
COST       of these tokens with prompt caching, in tokens at the full price
`
}

// explanation says how it was counted.
func (r *Report) explanation() string {
	const fake = "The API is a fake one, which works out for every request anew what to clear; whether Claude's does is " +
		"not documented."
	var text []string
	if r.Generated != nil {
		text = []string{
			"How it was counted.", fake,
			"Tokens are estimated at 4 bytes each: there is no public tokenizer. Results have the sizes that were drawn for " +
				"them. The model is a few rules. So this tells what a setting does to the number of tokens, and nothing about " +
				"how good the answers are.",
		}
	} else {
		text = []string{
			"How it was counted. Every prompt has the size that the API counted, context edits undone, and a block has its " +
				"share of it by its length.", fake,
			"The answers are the recorded ones, whatever is cleared: what the model would have done instead is not known, " +
				"nor, in general, what it needed again.",
			r.Recorded.remarks(),
		}
	}
	if r.Rows[len(r.Rows)-1].Hold {
		text = append(text, "What was cleared the client left out of later requests (--hold), so the trigger is compared "+
			"with what is left.")
	}
	text = append(text, "Prompt caching: there is a breakpoint after the task and one at the end; what is read from the "+
		"cache costs 0.1 of a token, what is written 1.25. A clearing changes the prompt where the result was, and all "+
		"after it is written again.")
	counted := wrap(strings.Join(text, " "))
	if r.Generated == nil {
		return counted
	}
	return counted + "\n" + wrap(published+difference)
}

// remarks says what there is to say of the run besides its numbers.
func (r *RecordedRun) remarks() string {
	text := fmt.Sprintf("It looked into its memory %s.", count(r.MemoryViews, "time", "times"))
	if r.Compactions > 0 {
		text += fmt.Sprintf(" Left out: %s that did nothing but summarize the conversation.",
			count(r.Compactions, "request", "requests"))
	}
	if r.Misfits > 0 {
		text += fmt.Sprintf(" Of %s the size does not agree with what the API counted: it counted less than for the one "+
			"before, for a reason that is not recorded.", count(r.Misfits, "request", "requests"))
	}
	return text
}

// published is the published evaluation that ours stands beside.
const published = `Published (https://claude.com/blog/context-management): "In a 100-turn web search evaluation, ` +
	`context editing enabled agents to complete workflows that would otherwise fail due to context exhaustion—while ` +
	`reducing token consumption by 84%." On another set, for agentic search, "combining the memory tool with context ` +
	`editing improved performance by 39% over baseline. Context editing alone delivered a 29% improvement." Neither the ` +
	`tasks nor the settings, nor how tokens were counted, are public.`

// difference is why the table of a generated run is not a repetition of that.
const difference = " Ours has other tasks, sizes that were chosen, and no model; a figure that is close to 84 % is " +
	"no confirmation."

// wrap breaks a text into lines of at most 80 characters.
func wrap(text string) string {
	var b strings.Builder
	length := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case length+1+n > 80:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += n
	}
	return b.String() + "\n"
}

// thousands writes a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func percent(p float64) string { return fmt.Sprintf("%.1f %%", p) }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// count writes a number and the word for what is counted.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}
