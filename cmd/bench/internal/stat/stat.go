// Package stat compares what was measured in rounds: every round measures everything once, in an order of its own, so
// that a machine that is slow for a while is slow for all that is compared.
package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Orders returns, for every round, the order in which n things take their turns. The same seed gives the same orders.
func Orders(seed uint64, rounds, n int) [][]int {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // An order is no secret, and is to be the same again.
	orders := make([][]int, rounds)
	for i := range orders {
		orders[i] = random.Perm(n)
	}
	return orders
}

// Median returns the middle of values: the mean of the two in the middle where there are two. It is NaN for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile returns the smallest of sorted that is not below the fraction q of them, and the zero value for none.
func Quantile[T any](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Ratios returns a to b, round by round. Rounds in which one of them is not above 0 are left out: they say nothing.
func Ratios(a, b []float64) []float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return ratios
}

// Spread returns the factor, 1 or more, by which ratios are away from 1 at most, in either direction. It is NaN for
// none. Of the ratios of two of the same it is how much measuring errs.
func Spread(ratios []float64) float64 {
	spread := math.NaN()
	for _, r := range ratios {
		away := max(r, 1/r)
		if math.IsNaN(spread) || away > spread {
			spread = away
		}
	}
	return spread
}

// Within says whether a ratio is within a spread, so that it says nothing but "the same".
func Within(ratio, spread float64) bool { return max(ratio, 1/ratio) <= spread }
