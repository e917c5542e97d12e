package kvtest

import (
	"context"
	"sync/atomic"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Faulty is a store that fails where its functions say so. A function that is nil never does. The functions are called
// on the goroutines of the callers, and must not be changed while the store is used.
type Faulty struct {
	kv.Store

	// BeforeView may fail a View, whose function then does not run.
	BeforeView func(scope string) error
	// BeforeUpdate may fail an Update, whose function then does not run: nothing was committed.
	BeforeUpdate func(scope string) error
	// AfterUpdate may replace the success of an Update that was committed: its answer was lost.
	AfterUpdate func(scope string) error
	// BeforeScopes may fail a Scopes.
	BeforeScopes func() error
}

// View implements kv.Store.
func (f *Faulty) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	if f.BeforeView != nil {
		if err := f.BeforeView(scope); err != nil {
			return err
		}
	}
	return f.Store.View(ctx, scope, fn)
}

// Update implements kv.Store.
func (f *Faulty) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	if f.BeforeUpdate != nil {
		if err := f.BeforeUpdate(scope); err != nil {
			return err
		}
	}
	if err := f.Store.Update(ctx, scope, fn); err != nil {
		return err
	}
	if f.AfterUpdate != nil {
		return f.AfterUpdate(scope)
	}
	return nil
}

// Scopes implements kv.Store.
func (f *Faulty) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	if f.BeforeScopes != nil {
		if err := f.BeforeScopes(); err != nil {
			return nil, err
		}
	}
	return f.Store.Scopes(ctx, after, limit)
}

// Unwrap returns the store that does the work.
func (f *Faulty) Unwrap() kv.Store { return f.Store }

// OnCall returns a function for a Faulty that fails the nth call, counted from one, and no other.
func OnCall(n int64, err error) func(scope string) error {
	var calls atomic.Int64
	return func(string) error {
		if calls.Add(1) == n {
			return err
		}
		return nil
	}
}
