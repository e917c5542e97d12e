package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// newArrivals returns arrivals with a timeout of a minute, and what counts those that did not come.
func newArrivals(draining context.Context) (*arrivals, *int) {
	gaveUp := new(int)
	return &arrivals{timeout: time.Minute, draining: draining, gaveUp: func() { *gaveUp++ }}, gaveUp
}

func beginCall(ctx context.Context, t *testing.T, a *arrivals) context.Context {
	t.Helper()
	ctx, err := a.begin(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func wantGivenUp(ctx context.Context, t *testing.T, after time.Duration, want bool) {
	t.Helper()
	time.Sleep(after) // In the time of the bubble.
	synctest.Wait()
	if got := ctx.Err() != nil; got != want {
		t.Errorf("after %s more: given up is %t, want %t", after, got, want)
	}
}

func TestArrivals(t *testing.T) {
	tests := []struct {
		name string
		test func(t *testing.T, a *arrivals, drain func())
		want int // given up
	}{
		{"timeout", func(t *testing.T, a *arrivals, _ func()) {
			ctx := beginCall(t.Context(), t, a)
			wantGivenUp(ctx, t, time.Minute-1, false)
			wantGivenUp(ctx, t, 1, true)
		}, 1},
		{"came in time", func(t *testing.T, a *arrivals, drain func()) {
			ctx := beginCall(t.Context(), t, a)
			a.start(ctx)
			drain()
			wantGivenUp(ctx, t, time.Hour, false)
		}, 0},
		{"stop", func(t *testing.T, a *arrivals, drain func()) {
			ctx := beginCall(t.Context(), t, a)
			drain()
			wantGivenUp(ctx, t, patience-1, false)
			wantGivenUp(ctx, t, 1, true)
		}, 1},
		{"comes as the server stops", func(t *testing.T, a *arrivals, drain func()) {
			ctx := beginCall(t.Context(), t, a)
			drain()
			wantGivenUp(ctx, t, patience-1, false)
			a.start(ctx)
			wantGivenUp(ctx, t, time.Hour, false)
		}, 0},
		{"begins as the server stops", func(t *testing.T, a *arrivals, drain func()) {
			drain()
			wantGivenUp(t.Context(), t, time.Second, false)
			ctx := beginCall(t.Context(), t, a)
			wantGivenUp(ctx, t, patience-1, false)
			wantGivenUp(ctx, t, 1, true)
		}, 1},
		{"client gives up", func(t *testing.T, a *arrivals, _ func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ctx = beginCall(ctx, t, a)
			cancel()
			wantGivenUp(ctx, t, time.Hour, true)
			if r := ctx.Value(arrivalKey{}).(*arrival); !r.over || r.timer.Stop() {
				t.Error("the timer of a call that is gone still runs")
			}
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draining, drain := context.WithCancel(t.Context())
				defer drain()
				a, gaveUp := newArrivals(draining)
				tt.test(t, a, drain)
				if *gaveUp != tt.want {
					t.Errorf("counted %d requests that were given up, want %d", *gaveUp, tt.want)
				}
			})
		})
	}
}
