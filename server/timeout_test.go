package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// bound returns the context of a handler that has a minute, and what ends its call.
func bound(ctx context.Context) (_ context.Context, end func()) {
	c := &lazyTimeout{Context: ctx, deadline: time.Now().Add(time.Minute)}
	return c, c.cancel
}

// done tells whether a context is done for those who wait for it.
func done(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// lazyTimeout does what context.WithTimeout does, whether anybody waits for it or not.
func TestLazyTimeout(t *testing.T) {
	for name, waits := range map[string]bool{"asked": false, "waited for": true} {
		t.Run(name, func(t *testing.T) {
			want := func(ctx context.Context, err error) {
				t.Helper()
				synctest.Wait()
				if got := ctx.Err(); !errors.Is(got, err) {
					t.Errorf("got the error %v, want %v", got, err)
				}
				if waits && done(ctx) != (err != nil) {
					t.Errorf("it is done: %t, and its error is %v", done(ctx), err)
				}
				if within, cancel := context.WithCancel(ctx); waits {
					if got := within.Err(); !errors.Is(got, err) {
						t.Errorf("a context within has the error %v, want %v", got, err)
					}
					cancel()
				} else {
					cancel()
				}
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, end := bound(t.Context())
				want(ctx, nil)
				time.Sleep(time.Minute - time.Nanosecond)
				want(ctx, nil)
				time.Sleep(time.Nanosecond)
				want(ctx, context.DeadlineExceeded)
				end()
				want(ctx, context.DeadlineExceeded)
			})
			synctest.Test(t, func(t *testing.T) {
				ctx, end := bound(t.Context())
				want(ctx, nil)
				end()
				want(ctx, context.Canceled)
			})
			synctest.Test(t, func(t *testing.T) {
				outer, cancel := context.WithCancel(t.Context())
				ctx, end := bound(outer)
				defer end()
				want(ctx, nil)
				cancel()
				want(ctx, context.Canceled)
			})
			synctest.Test(t, func(t *testing.T) {
				outer, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ctx, end := bound(outer)
				defer end()
				if got, ok := ctx.Deadline(); !ok || !got.Equal(time.Now().Add(time.Second)) {
					t.Errorf("got the deadline %v, want the one that comes first", got)
				}
				time.Sleep(time.Second)
				want(ctx, context.DeadlineExceeded)
			})
		})
	}
}

// Who waits for a context within it is told of the end without anybody asking, and so is who begins after the end.
func TestLazyTimeout_Within(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := bound(context.WithValue(t.Context(), callKey{}, "value"))
		within, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if got := within.Value(callKey{}); got != "value" {
			t.Errorf("got the value %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !done(within) || !errors.Is(within.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline has passed", within.Err())
		}
		end()
		late, endLate := bound(t.Context())
		endLate()
		if !done(late) {
			t.Error("a call that has ended is not done for who asks late")
		}
	})
}

// Each layer goes on once, in their order, with the context and the request that the one before gave it.
func TestChainUnary(t *testing.T) {
	var went []string
	layer := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			went = append(went, name+" "+info.FullMethod)
			resp, err := handler(ctx, req.(string)+name)
			return resp.(string) + name, err
		}
	}
	handler := func(_ context.Context, req any) (any, error) {
		went = append(went, "handler")
		return req.(string) + "-", nil
	}
	chain := chainUnary([]grpc.UnaryServerInterceptor{layer("a"), layer("b"), layer("c")})
	for range 2 {
		went = nil
		got, err := chain(t.Context(), "", &grpc.UnaryServerInfo{FullMethod: "m"}, handler)
		if err != nil || got != "abc-cba" {
			t.Errorf("got %v, %v; want abc-cba", got, err)
		}
		if len(went) != 4 || went[0] != "a m" || went[3] != "handler" {
			t.Errorf("went %q", went)
		}
	}
	got, err := chainUnary(nil)(t.Context(), "x", &grpc.UnaryServerInfo{}, handler)
	if err != nil || got != "x-" {
		t.Errorf("without layers: got %v, %v", got, err)
	}
}

// The first error that was told stays, whatever comes after it.
func TestLazyTimeout_ErrorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := bound(t.Context())
		time.Sleep(time.Minute)
		for _, after := range []func(){func() {}, end, func() { <-ctx.Done() }} {
			after()
			if got := ctx.Err(); !errors.Is(got, context.DeadlineExceeded) {
				t.Errorf("got %v, want that the deadline has passed", got)
			}
		}
	})
}
