package stat

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every round measures everything once, so that all of it can be paired; and no order is that of all rounds.
func TestOrders(t *testing.T) {
	const rounds, n = 20, 5
	orders := Orders(1, rounds, n)
	if len(orders) != rounds {
		t.Fatalf("got %d rounds, want %d", len(orders), rounds)
	}
	different := map[int]bool{} // what comes first
	for i, order := range orders {
		if got, want := slices.Sorted(slices.Values(order)), []int{0, 1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("round %d has %v, want each of %v once", i, order, want)
		}
		different[order[0]] = true
	}
	if len(different) != n {
		t.Errorf("only %v come first in any round, want all %d", different, n)
	}
	if diff := cmp.Diff(orders, Orders(1, rounds, n)); diff != "" {
		t.Errorf("the same seed gives other orders (-first +second):\n%s", diff)
	}
	if cmp.Equal(orders, Orders(2, rounds, n)) {
		t.Error("another seed gives the same orders")
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1000, 2, 1}, 3},
	} {
		before := slices.Clone(test.values)
		if got := Median(test.values); got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("the values were sorted in place: %v, want %v", test.values, before)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, test := range []struct {
		values []int
		q      float64
		want   int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0.99, 7},
		{[]int{1, 2, 3}, 0.5, 2},
		{[]int{1, 2}, 0, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		if got := Quantile(test.values, test.q); got != test.want {
			t.Errorf("quantile %v of %d values is %d, want %d", test.q, len(test.values), got, test.want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{2, 9, 0, 5, 1}, []float64{1, 3, 4, 0})
	if want := []float64{2, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A control that is slower than its twin says as much as one that is faster.
func TestSpread(t *testing.T) {
	for _, test := range []struct {
		ratios []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{1}, 1},
		{[]float64{1.05, 0.5, 1.2}, 2},
		{[]float64{1.05, 0.9, 1.25}, 1.25},
	} {
		if got := Spread(test.ratios); got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
			t.Errorf("spread of %v is %v, want %v", test.ratios, got, test.want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		ratio, spread float64
		want          bool
	}{
		{1, 1, true}, {1.2, 1.25, true}, {0.8, 1.25, true}, {1.3, 1.25, false}, {0.5, 1.25, false}, {1, math.NaN(), false},
	} {
		if got := Within(test.ratio, test.spread); got != test.want {
			t.Errorf("%v within %v: got %v, want %v", test.ratio, test.spread, got, test.want)
		}
	}
}
