package trial

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting is a server that counts the calls that a runner makes.
type counting struct {
	calls int
}

func (c *counting) Usage() (*child.Usage, error) {
	return &child.Usage{CPUSeconds: float64(c.calls) * 0.002}, nil
}

func (c *counting) Metrics(context.Context) (map[string]float64, error) {
	n := float64(c.calls)
	return map[string]float64{
		countedAllocs: 1000 + 30*n, countedAllocBytes: 4000 * n, countedUpdates: n, countedCommits: n / 4,
	}, nil
}

func (c *counting) FileBytes() (int64, error) { return int64(c.calls) * 100, nil }

// runner is a subject that makes so many calls a second.
func (c *counting) runner(rate int) Runner {
	return func(_ context.Context, _ int, d time.Duration) (Sample, error) {
		n := int(d.Seconds() * float64(rate))
		c.calls += n
		return Sample{Calls: n, Elapsed: d, P50: time.Second / time.Duration(rate), P99: time.Second}, nil
	}
}

func TestCase(t *testing.T) {
	fast, slow := &counting{}, &counting{}
	var order []string
	note := func(name string, run Runner) Runner {
		return func(ctx context.Context, callers int, d time.Duration) (Sample, error) {
			order = append(order, name)
			return run(ctx, callers, d)
		}
	}
	c := Case{Name: "read", Callers: 8, Subjects: []Subject{
		{Name: "fast", Server: fast, Run: note("fast", fast.runner(1000))},
		{Name: "fast again", Run: note("fast again", (&counting{}).runner(800))},
		{Name: "slow", Server: slow, Run: note("slow", slow.runner(250))},
	}}
	got, err := c.Run(t.Context(), Settings{Slices: 7, Slice: 2 * time.Second, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 1 + 7 { // the first to warm up
		turn := slices.Sorted(slices.Values(order[3*round : 3*round+3]))
		if want := []string{"fast", "fast again", "slow"}; !slices.Equal(turn, want) {
			t.Errorf("round %d has %v, want each of %v", round, turn, want)
		}
	}
	s, _ := got.Subject("slow")
	if len(s.Slices) != 7 {
		t.Errorf("got %d slices, want 7", len(s.Slices))
	}
	want := Figures{
		Rate: 250, P50: 0.004, P99: 1, CPU: 0.002, Allocs: 30, AllocBytes: 4000, Group: 4, Growth: 100,
	}
	if diff := cmp.Diff(want, s.Figures, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	control, _ := got.Subject("fast again")
	if got, want := slices.Sorted(maps.Keys(control.Figures)), []Metric{P50, P99, Rate}; !slices.Equal(got, want) {
		t.Errorf("of what is not counted there is %v, want %v", got, want)
	}
	for _, test := range []struct {
		reference string
		metric    Metric
		want      float64
		wantOK    bool
	}{
		{"slow", Rate, 4, true},
		{"slow", P50, 0.25, true},
		{"slow", Writes, 0, false},
		{"missing", Rate, 0, false},
		{"slow", Growth, 1, true}, // It was measured once.
	} {
		got, ok := got.Ratio("fast", test.reference, test.metric)
		if ok != test.wantOK || ok && got != test.want {
			t.Errorf("%s over %s is %v, %v, want %v, %v", test.metric, test.reference, got, ok, test.want, test.wantOK)
		}
	}
	if spread, ok := got.Spread(Rate); spread != 1.25 || !ok {
		t.Errorf("spread is %v, %v, want 1.25", spread, ok)
	}
	if _, ok := got.Spread(Allocs); ok {
		t.Error("there is a spread of what was not counted of the control")
	}
}

func TestCase_Errors(t *testing.T) {
	broken := errors.New("broken")
	settings := Settings{Slices: 7, Slice: time.Second}
	for _, test := range []struct {
		subject Subject
		want    string
	}{
		{Subject{Name: "a", Run: func(context.Context, int, time.Duration) (Sample, error) {
			return Sample{}, broken
		}}, "read: a: broken"},
		{Subject{Name: "a", Run: func(context.Context, int, time.Duration) (Sample, error) {
			return Sample{}, nil
		}}, "read: a: no call ended within the slice"},
	} {
		_, err := Case{Name: "read", Subjects: []Subject{test.subject}}.Run(t.Context(), settings)
		if err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// Where system calls cannot be counted, all else is good.
func TestCase_NotCounted(t *testing.T) {
	c := Case{Name: "read", Subjects: []Subject{{
		Name: "a", Run: (&counting{}).runner(10),
		Trace: func(context.Context) (*child.Tracer, error) { return nil, exec.ErrNotFound },
	}}}
	result, err := c.Run(t.Context(), Settings{Slices: 7, Slice: time.Second})
	if !errors.Is(err, ErrNotCounted) || !strings.Contains(err.Error(), "there is no strace here") {
		t.Errorf("got %v, want that there is no strace", err)
	}
	if got := result.Subjects[0].Figures[Rate]; got != 10 {
		t.Errorf("got a rate of %v, want 10", got)
	}
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := Calls(func(_ context.Context, caller int) error {
			time.Sleep(time.Duration(caller+1) * 10 * time.Millisecond)
			return nil
		})
		got, err := run(t.Context(), 2, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		// 10 of the first caller, and 5 of the second.
		want := Sample{Calls: 15, Elapsed: 100 * time.Millisecond, P50: 10 * time.Millisecond, P99: 20 * time.Millisecond}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sample (-want +got):\n%s", diff)
		}
	})
}

// The first error ends the calls of all callers.
func TestCalls_Fail(t *testing.T) {
	broken := errors.New("broken")

	_, err := Calls(func(ctx context.Context, caller int) error {
		if caller == 0 {
			return broken
		}

		<-ctx.Done()
		return ctx.Err()
	})(t.Context(), 4, time.Hour)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}
