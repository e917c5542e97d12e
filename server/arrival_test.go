package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// newArrivals returns arrivals with a timeout of a minute, and what counts those that did not come.
func newArrivals(draining context.Context) (*arrivals, *int) {
	gaveUp := new(int)
	return &arrivals{timeout: time.Minute, draining: draining, gaveUp: func() { *gaveUp++ }}, gaveUp
}

func beginCall(ctx context.Context, t *testing.T, a *arrivals) context.Context {
	t.Helper()
	return beginCallOf(ctx, t, a, memoryv1.MemoryService_View_FullMethodName)
}

func beginCallOf(ctx context.Context, t *testing.T, a *arrivals, method string) context.Context {
	t.Helper()
	ctx, err := a.begin(ctx, &tap.Info{FullMethodName: method})
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
			arrived(ctx)
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
			arrived(ctx)
			wantGivenUp(ctx, t, time.Hour, false)
		}, 0},
		{"begins as the server stops", func(t *testing.T, a *arrivals, drain func()) {
			drain()
			wantGivenUp(t.Context(), t, time.Second, false)
			ctx := beginCall(t.Context(), t, a)
			wantGivenUp(ctx, t, patience-1, false)
			wantGivenUp(ctx, t, 1, true)
		}, 1},
		{"health check", func(t *testing.T, a *arrivals, _ func()) {
			ctx := beginCallOf(t.Context(), t, a, healthpb.Health_Check_FullMethodName)
			wantGivenUp(ctx, t, strangerPatience-1, false)
			wantGivenUp(ctx, t, 1, true)
		}, 1},
		{"first message of a watch", func(t *testing.T, a *arrivals, _ func()) {
			for _, says := range []bool{true, false} {
				ss := &getStream{contextStream{ctx: beginCallOf(t.Context(), t, a, healthpb.Health_Watch_FullMethodName)}}
				info := &grpc.StreamServerInfo{FullMethod: healthpb.Health_Watch_FullMethodName}
				err := a.stream(nil, ss, info, func(_ any, ss grpc.ServerStream) error {
					if says {
						if err := ss.RecvMsg(&memoryv1.GetRequest{}); err != nil {
							return err
						}
					}
					wantGivenUp(ss.Context(), t, strangerPatience, !says)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}, 1},
		{"client gives up", func(t *testing.T, a *arrivals, _ func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ctx = beginCall(ctx, t, a)
			cancel()
			wantGivenUp(ctx, t, time.Hour, true)
			if len(a.waiting) > 0 || !a.due.IsZero() {
				t.Error("a call that is gone is still waited for")
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

// A client that opens calls and gives them up leaves next to nothing behind, also before the time of a wait is over.
func TestArrivals_GivenUpByClient(t *testing.T) {
	a, gaveUp := newArrivals(t.Context())
	const open, gone = 5, 1000
	for range open {
		beginCall(t.Context(), t, a)
	}
	for range gone {
		ctx, cancel := context.WithCancel(t.Context())
		beginCall(ctx, t, a)
		cancel()
	}
	if got := len(a.waiting); got < open || got > 4*open {
		t.Errorf("%d calls are waited for, want little more than the %d that are open", got, open)
	}
	if *gaveUp != 0 {
		t.Errorf("counted %d requests that were given up, want none", *gaveUp)
	}
}

// Many requests are waited for at a time, and each has its own.
func TestArrivals_Many(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newArrivals(t.Context())
		var gaveUp atomic.Int64
		a.gaveUp = func() { gaveUp.Add(1) }
		var late []context.Context
		for i := range 100 {
			ctx := beginCall(t.Context(), t, a)
			if i%10 == 0 {
				late = append(late, ctx)
			} else {
				defer arrived(ctx)
			}
			if i%2 == 0 {
				arrived(beginCallOf(t.Context(), t, a, healthpb.Health_Check_FullMethodName))
			}
			time.Sleep(time.Second) // In the time of the bubble.
		}
		synctest.Wait()
		for i, ctx := range late {
			if got, want := ctx.Err() != nil, i*10 <= 40; got != want {
				t.Errorf("request %d: given up is %t, want %t", i*10, got, want)
			}
		}
		if got := gaveUp.Load(); got != 41 {
			t.Errorf("counted %d requests that were given up, want 41", got)
		}
	})
}
