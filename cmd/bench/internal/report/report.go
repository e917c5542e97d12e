// Package report says what was measured: as a table for people, in Markdown, as a picture, and as JSON for machines.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/stat"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Schema names the form of the JSON of a Report. It changes when a field changes its meaning or goes away.
const Schema = "memoryd-bench/1"

// Report is one run of the benchmark. As JSON it is what machines read: times are in seconds, sizes in bytes; figures
// of cases are by the names of metrics, which package trial explains, and what was not measured is absent.
type Report struct {
	// Schema is the constant of that name.
	Schema string `json:"schema"`
	// Time is when the run began.
	Time time.Time `json:"time"`
	// Machine is where it ran.
	Machine Machine `json:"machine"`
	// Versions are those of what was measured, by its name.
	Versions map[string]string `json:"versions"`
	// Slices and SliceSeconds are how many slices each was measured in, and how long they were.
	Slices       int     `json:"slices"`
	SliceSeconds float64 `json:"slice_seconds"`
	// Seed is that of the order of the slices.
	Seed uint64 `json:"seed"`
	// Notes say what is not as it should be: what was not compared, or not counted.
	Notes []string `json:"notes,omitempty"`
	// Checks are the targets.
	Checks []Check `json:"checks"`
	// Cases are what was compared. The control of a case is its first subject once more; its name ends with trial.Again.
	Cases []trial.Result `json:"cases"`
}

// Machine is a machine.
type Machine struct {
	// System is the operating system and the architecture, as Go calls them.
	System string `json:"system"`
	// CPUs is how many processors it has. Servers and those who call them share them.
	CPUs int `json:"cpus"`
	// FileSystem is that of the data; "" where it is not known.
	FileSystem string `json:"file_system,omitempty"`
	// Go is the version of Go that the benchmark was built with.
	Go string `json:"go"`
}

// Case returns the result of a case, and false where it was not measured.
func (r *Report) Case(name string, callers int) (trial.Result, bool) {
	for _, c := range r.Cases {
		if c.Name == name && c.Callers == callers {
			return c, true
		}
	}
	return trial.Result{}, false
}

// Read reads what WriteJSON wrote.
func Read(file string) (*Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read report %s: %w", file, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read report %s: its schema is %q, and this program knows %q", file, r.Schema, Schema)
	}
	return &r, nil
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return writeFile(file, append(data, '\n'))
}

func writeFile(file string, data []byte) error {
	if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Bound is whether a target is a least or a most.
type Bound string

// Bounds.
const (
	AtLeast Bound = "at least"
	AtMost  Bound = "at most"
	// Same is a ratio that is within the spread of its control.
	Same Bound = "same"
)

// Unit is what a number is in.
type Unit string

// Units.
const (
	Times   Unit = "times"
	Count   Unit = ""
	Bytes   Unit = "bytes"
	Seconds Unit = "seconds"
)

// Check is a target, and what was measured.
type Check struct {
	// Work is what the target is about.
	Work string `json:"work"`
	// Bound and Limit are the target, in Unit.
	Bound Bound   `json:"bound"`
	Limit float64 `json:"limit,omitempty"`
	Unit  Unit    `json:"unit,omitempty"`
	// Measured is absent where it was not measured.
	Measured *float64 `json:"measured,omitempty"`
	// Spread is the factor by which the control differed from its twin; absent where the check is no ratio, or there is
	// no control.
	Spread *float64 `json:"spread,omitempty"`
	// Met is false, too, where nothing was measured, and where CannotTell is true.
	Met bool `json:"met"`
	// CannotTell is true where Limit is no further from what was measured than the control differed from its twin.
	CannotTell bool `json:"cannot_tell,omitempty"`
}

// Judge sets Met and CannotTell.
func (c *Check) Judge() {
	switch {
	case c.Measured == nil:
	case c.Bound == Same:
		c.Met = c.same()
	case c.Spread != nil && stat.Within(*c.Measured/c.Limit, *c.Spread):
		c.CannotTell = true
	case c.Bound == AtLeast:
		c.Met = *c.Measured >= c.Limit
	case c.Bound == AtMost:
		c.Met = *c.Measured <= c.Limit
	}
}

// same says whether the ratio is within the spread.
func (c *Check) same() bool {
	return c.Measured != nil && c.Spread != nil && stat.Within(*c.Measured, *c.Spread)
}
