package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// fate is what became of an entry of an archive, or would in a dry run.
type fate string

const (
	fateCreated     fate = "created"
	fateOverwritten fate = "overwritten"
	fateSkipped     fate = "skipped"  // the memory has it
	fateConflict    fate = "conflict" // the memory has it, which --on-conflict=fail does not accept
	fateRefused     fate = "refused"
)

// importReport tells what became of the entries of an archive.
type importReport struct {
	namespace string
	dryRun    bool
	complete  bool // the archive was read to its end
	entries   []reported
}

type reported struct {
	fate   fate
	name   string // the path in the memory, with a "/" at the end of a directory; of a refused entry its name
	reason string // of a refused one
}

func (r *importReport) add(fate fate, path string) {
	r.entries = append(r.entries, reported{fate: fate, name: path})
}

func (r *importReport) refuse(name, reason string) {
	r.entries = append(r.entries, reported{fateRefused, shorten(name), reason})
}

// shorten cuts a name that is too long for any path: in an archive it may have a megabyte.
func shorten(name string) string {
	if len(name) <= maxPathBytes {
		return name
	}
	return strings.ToValidUTF8(name[:maxPathBytes], "") + "..."
}

func (r *importReport) count(fate fate) int64 {
	var n int64
	for _, e := range r.entries {
		if e.fate == fate {
			n++
		}
	}
	return n
}

// err is errErrorResult where an entry was refused or a conflict.
func (r *importReport) err() error {
	if r.count(fateRefused)+r.count(fateConflict) > 0 {
		return errErrorResult
	}
	return nil
}

// keepFailures forgets the entries that could have been imported.
func (r *importReport) keepFailures() {
	r.entries = slices.DeleteFunc(r.entries, func(e reported) bool {
		return e.fate != fateConflict && e.fate != fateRefused
	})
}

// imported is the report for programs.
type imported struct {
	Namespace   string    `json:"namespace"`
	DryRun      bool      `json:"dryRun"`
	Complete    bool      `json:"complete"`
	Created     []string  `json:"created"`
	Overwritten []string  `json:"overwritten"`
	Skipped     []string  `json:"skipped"`
	Conflicts   []string  `json:"conflicts"`
	Refused     []refusal `json:"refused"`
}

type refusal struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (r *importReport) object() imported {
	paths := func(fate fate) []string {
		list := []string{} // rather than null
		for _, e := range r.entries {
			if e.fate == fate {
				list = append(list, e.name)
			}
		}
		return list
	}
	refused := []refusal{}
	for _, e := range r.entries {
		if e.fate == fateRefused {
			refused = append(refused, refusal{e.name, e.reason})
		}
	}
	return imported{
		Namespace: r.namespace, DryRun: r.dryRun, Complete: r.complete,
		Created: paths(fateCreated), Overwritten: paths(fateOverwritten), Skipped: paths(fateSkipped),
		Conflicts: paths(fateConflict), Refused: refused,
	}
}

// printImport prints the report: what went wrong on standard error, the rest on standard output.
func (c *cli) printImport(r *importReport) error {
	if c.output == outputJSON {
		return c.printObject(r.object())
	}
	for _, e := range r.entries {
		switch e.fate {
		case fateRefused:
			c.complain("refused %s: %s", strconv.Quote(e.name), e.reason)
		case fateConflict:
			c.complain("%s is in the memory already", strconv.Quote(e.name))
		}
	}
	if r.dryRun {
		return c.print(r.fates())
	}
	return c.print(r.counts())
}

// counts is a table of how many entries went which way.
func (r *importReport) counts() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESULT\tENTRIES")
	for _, f := range []fate{fateCreated, fateOverwritten, fateSkipped, fateConflict, fateRefused} {
		fmt.Fprintf(w, "%s\t%d\n", f, r.count(f))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return text.String()
}

// fates is a table of all entries.
func (r *importReport) fates() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WOULD BE\tENTRY")
	for _, e := range r.entries {
		name := e.name
		if quoted := strconv.Quote(name); e.fate == fateRefused || quoted != `"`+name+`"` {
			name = quoted
		}
		fmt.Fprintf(w, "%s\t%s\n", e.fate, name)
	}
	_ = w.Flush()
	return text.String()
}
