package trial

import (
	"math"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/stat"
)

// Subject returns the result of a subject, and false where it did not take part.
func (r Result) Subject(name string) (SubjectResult, bool) {
	for _, s := range r.Subjects {
		if s.Name == name {
			return s, true
		}
	}
	return SubjectResult{}, false
}

// Ratio returns the median of the ratios of one subject to another, round by round, and false where one of them did not
// take part or the metric was not measured.
func (r Result) Ratio(subject, reference string, m Metric) (float64, bool) {
	ratio := stat.Median(r.ratios(subject, reference, m))
	return ratio, !math.IsNaN(ratio)
}

// Again is what the name of a control ends with; it begins with that of its twin, the first subject of the case.
const Again = " again"

// Spread returns by which factor, 1 or more, a metric of the control differed from that of its twin at most; and false
// where that was not measured. Ratios within it say nothing.
func (r Result) Spread(m Metric) (float64, bool) {
	if len(r.Subjects) == 0 {
		return 0, false
	}
	first := r.Subjects[0].Name
	spread := stat.Spread(r.ratios(first+Again, first, m))
	return spread, !math.IsNaN(spread)
}

func (r Result) ratios(subject, reference string, m Metric) []float64 {
	a, _ := r.Subject(subject)
	b, _ := r.Subject(reference)
	return stat.Ratios(a.values(m), b.values(m))
}

// values returns a metric of all slices, 0 where a slice does not have it; or its one value where it was measured once.
func (s SubjectResult) values(m Metric) []float64 {
	if len(s.Slices) == 0 {
		return nil
	}
	if _, sliced := s.Slices[0][m]; !sliced {
		return []float64{s.Figures[m]}
	}
	values := make([]float64, len(s.Slices))
	for i, figures := range s.Slices {
		values[i] = figures[m]
	}
	return values
}
