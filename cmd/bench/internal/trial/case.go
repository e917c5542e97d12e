package trial

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/stat"
)

// Server is the server of a subject, for what it counts.
type Server interface {
	// Usage returns what the system counts about it; nil where it does not.
	Usage() (*child.Usage, error)
	// Metrics returns what it counts itself; nil where it does not.
	Metrics(ctx context.Context) (map[string]float64, error)
	// FileBytes returns how much its files take.
	FileBytes() (int64, error)
}

// Subject is one of those that are compared.
type Subject struct {
	// Name tells it from the others of its case.
	Name string
	// Other says that it is another program than the first of its case.
	Other bool
	// Run measures a slice.
	Run Runner
	// Server is what Run calls; nil where nothing is counted.
	Server Server
	// Trace counts its system calls, if it is not nil, in a slice of its own after the others.
	Trace func(ctx context.Context) (*child.Tracer, error)
}

// Case is a comparison. One subject is the first once more, as a process of its own: the control; see Again.
type Case struct {
	Name     string
	Callers  int
	Subjects []Subject
}

// Settings say how to measure.
type Settings struct {
	Slices int
	Slice  time.Duration
	Seed   uint64
}

// Result is what a case measured.
type Result struct {
	Name     string          `json:"name"`
	Callers  int             `json:"callers"`
	Subjects []SubjectResult `json:"subjects"`
}

// SubjectResult is what was measured of a subject.
type SubjectResult struct {
	Name string `json:"name"`
	// Other says that it is another program than the first of its case.
	Other bool `json:"other,omitempty"`
	// Slices are the figures of each round, in the order of the rounds.
	Slices []Figures `json:"slices"`
	// Figures are the medians of the slices, and what was measured once.
	Figures Figures `json:"figures"`
}

// ErrNotCounted says that system calls could not be counted, or not well. The rest of the result is good.
var ErrNotCounted = errors.New("system calls were not counted")

// Run measures the case.
func (c Case) Run(ctx context.Context, s Settings) (Result, error) {
	result := Result{Name: c.Name, Callers: c.Callers}
	before := make([]int64, len(c.Subjects))
	calls := make([]int, len(c.Subjects))
	for i, subject := range c.Subjects {
		result.Subjects = append(result.Subjects, SubjectResult{Name: subject.Name, Other: subject.Other})
		if _, err := subject.Run(ctx, c.Callers, s.Slice/2); err != nil { // to warm up
			return Result{}, fmt.Errorf("%s: %s: %w", c.Name, subject.Name, err)
		}
		var err error
		if before[i], err = subject.fileBytes(); err != nil {
			return Result{}, fmt.Errorf("%s: %s: %w", c.Name, subject.Name, err)
		}
	}
	for _, order := range stat.Orders(s.Seed, s.Slices, len(c.Subjects)) {
		for _, i := range order {
			m, err := c.Subjects[i].measure(ctx, c.Callers, s.Slice)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %s: %w", c.Name, c.Subjects[i].Name, err)
			}
			result.Subjects[i].Slices = append(result.Subjects[i].Slices, m.figures)
			calls[i] += m.calls
		}
	}
	var notCounted error
	for i, subject := range c.Subjects {
		r := &result.Subjects[i]
		r.Figures = Medians(r.Slices)
		after, err := subject.fileBytes()
		if err != nil {
			return Result{}, fmt.Errorf("%s: %s: %w", c.Name, subject.Name, err)
		}
		if after > before[i] {
			r.Figures[Growth] = float64(after-before[i]) / float64(calls[i])
		}
		if subject.Trace == nil {
			continue
		}
		if err := subject.trace(ctx, c.Callers, s.Slice, r.Figures); err != nil {
			notCounted = errors.Join(notCounted, fmt.Errorf("%s: %s: %w", c.Name, subject.Name, err))
		}
	}
	return result, notCounted
}

func (s Subject) fileBytes() (int64, error) {
	if s.Server == nil {
		return 0, nil
	}
	return s.Server.FileBytes()
}

// slice is what was measured in a slice.
type slice struct {
	figures Figures
	calls   int
	commits float64 // 0: not counted
}

func (s Subject) measure(ctx context.Context, callers int, d time.Duration) (slice, error) {
	begin, err := s.counters(ctx)
	if err != nil {
		return slice{}, err
	}
	sample, err := s.Run(ctx, callers, d)
	if err != nil {
		return slice{}, err
	}
	end, err := s.counters(ctx)
	if err != nil {
		return slice{}, err
	}
	if sample.Calls == 0 {
		return slice{}, errors.New("no call ended within the slice")
	}
	m := slice{calls: sample.Calls, figures: Figures{
		Rate: float64(sample.Calls) / sample.Elapsed.Seconds(),
		P50:  sample.P50.Seconds(),
		P99:  sample.P99.Seconds(),
	}}
	m.addCounters(begin, end)
	return m, nil
}

// trace adds to figures what a tracer counts in a slice of its own.
func (s Subject) trace(ctx context.Context, callers int, d time.Duration, figures Figures) error {
	tracer, err := s.Trace(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: there is no strace here", ErrNotCounted)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	m, err := s.measure(ctx, callers, d)
	calls, stopErr := tracer.Stop()
	if err := errors.Join(err, stopErr); err != nil {
		return err
	}
	if m.commits > 0 {
		figures[Syncs] = float64(calls.Syncs) / m.commits
	}
	return errors.Join(
		m.agree(Writes, float64(calls.Writes), figures), m.agree(WrittenBytes, float64(calls.Bytes), figures))
}

// agree holds what a server counted in a traced slice against what was traced, which stands in where it does not count.
func (m slice) agree(metric Metric, traced float64, figures Figures) error {
	traced /= float64(m.calls)
	counted, ok := m.figures[metric]
	if !ok {
		figures[metric] = traced
		return nil
	}
	if !stat.Within(counted/traced, disagreement) {
		return fmt.Errorf("%w: the server says that %s of a call are %g, and strace that they are %g",
			ErrNotCounted, metric, counted, traced)
	}
	return nil
}

// disagreement is the factor by which the counts of a server may be off.
const disagreement = 1.02
