package trial

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Sample is what a slice measured.
type Sample struct {
	// Calls is how many calls ended well.
	Calls int
	// Elapsed is the time from the first call to the end of the last.
	Elapsed time.Duration
	// P50 and P99 are how long the calls took, the middle one and that which 1 in 100 exceeds.
	P50, P99 time.Duration
}

// Runner makes calls for a time from a number of callers, each of which makes one after the other.
type Runner func(ctx context.Context, callers int, d time.Duration) (Sample, error)

// Calls returns the Runner of a call. Callers are numbered from 0. Each makes one call at least, and one that fails
// ends the slice.
func Calls(call func(ctx context.Context, caller int) error) Runner {
	return func(ctx context.Context, callers int, d time.Duration) (Sample, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		took := make([][]time.Duration, callers)
		var calling sync.WaitGroup
		start := time.Now()
		for caller := range callers {
			calling.Go(func() {
				for begin, end := time.Now(), start; end.Sub(start) < d; begin = end {
					if err := call(ctx, caller); err != nil {
						cancel(err)
						return
					}
					end = time.Now()
					took[caller] = append(took[caller], end.Sub(begin))
				}
			})
		}
		calling.Wait()
		elapsed := time.Since(start)
		if err := context.Cause(ctx); err != nil {
			return Sample{}, err
		}
		return newSample(slices.Concat(took...), elapsed), nil
	}
}
