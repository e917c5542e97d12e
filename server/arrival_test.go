package server

import (
	"context"
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
