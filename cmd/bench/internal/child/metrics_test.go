package child

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMetrics(t *testing.T) {
	const text = `# TYPE go_memstats_mallocs_total counter
go_memstats_mallocs_total 1.5e+06
# TYPE open_calls gauge
open_calls{method="View"} 2
open_calls{method="Create"} 3
# TYPE took_seconds histogram
took_seconds_bucket{le="+Inf"} 4
took_seconds_sum 9
took_seconds_count 4
`
	got, err := parseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"go_memstats_mallocs_total": 1.5e6, "open_calls": 5, "took_seconds_sum": 9, "took_seconds_count": 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if got, err := parseMetrics(strings.NewReader("no metrics\n")); err == nil {
		t.Errorf("got %v of what are no metrics, want an error", got)
	}
}
