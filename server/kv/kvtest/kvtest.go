// Package kvtest is what every engine of package kv is held against: a conformance suite, run by Run, that knows
// nothing of the engine. It also has stores that misbehave on purpose, for tests of what is built on kv: Faulty fails
// when told to, and Harsh takes every liberty that the contract gives to an engine.
package kvtest

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Run runs the suite. Each test has a new, empty store of its own; the suite checks and closes it.
func Run(t *testing.T, newStore func(t *testing.T) kv.Store) {
	tests := []struct {
		name string
		test func(t *testing.T, store kv.Store)
	}{
		{"Get", testGet},
		{"EmptyValue", testEmptyValue},
		{"ScanOrder", testScanOrder},
		{"ScanOptions", testScanOptions},
		{"ScanFunctionFails", testScanFunctionFails},
		{"OwnWrites", testOwnWrites},
		{"DeleteAbsent", testDeleteAbsent},
		{"WritesAreCopied", testWritesAreCopied},
		{"UpdateFails", testUpdateFails},
		{"UpdateIgnoresError", testUpdateIgnoresError},
		{"UpdatePanics", testUpdatePanics},
		{"UpdateExits", testUpdateExits},
		{"ViewPanics", testViewPanics},
		{"KeySize", testKeySize},
		{"ValueSize", testValueSize},
		{"WriteCount", testWriteCount},
		{"TransactionSize", testTransactionSize},
		{"SnapshotStays", testSnapshotStays},
		{"AcknowledgedIsSeen", testAcknowledgedIsSeen},
		{"FailuresAmongOthers", testFailuresAmongOthers},
		{"CounterOfOneScope", testCounterOfOneScope},
		{"CountersOfManyScopes", testCountersOfManyScopes},
		{"ViewsAreConsistent", testViewsAreConsistent},
		{"ScopesAreApart", testScopesAreApart},
		{"ScopesInPages", testScopesInPages},
		{"ScopesComeAndGo", testScopesComeAndGo},
		{"ReservedScope", testReservedScope},
		{"InvalidUse", testInvalidUse},
		{"UseAfterEnd", testUseAfterEnd},
		{"UseWithinScan", testUseWithinScan},
		{"ContextDone", testContextDone},
		{"ContextDoneWhileWaiting", testContextDoneWhileWaiting},
		{"Closed", testClosed},
		{"CloseWaits", testCloseWaits},
		{"Model", testModel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t)
			Check(t, store)
			tt.test(t, store)
		})
	}
}

// Check makes the store be checked, where it is a kv.Checker, and closed when the test ends. A store that is closed by
// then is left alone.
func Check(tb testing.TB, store kv.Store) {
	tb.Helper()
	tb.Cleanup(func() {
		if checker, ok := kv.As[kv.Checker](store); ok {
			if err := checker.Check(context.Background()); err != nil && !errors.Is(err, kv.ErrClosed) {
				tb.Errorf("check of the store when the test ends: %v", err)
			}
		}
		if err := store.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			tb.Errorf("close of the store when the test ends: %v", err)
		}
	})
}

// pair is a key and its value, as text so that differences are readable.
type pair struct {
	Key, Value string
}

// scope is where a test that needs no particular scope works.
const scope = "acme/user-42"

// update is an Update that tries again for as long as the store is busy.
func update(ctx context.Context, store kv.Store, scope string, fn func(kv.Tx) error) error {
	for {
		if err := store.Update(ctx, scope, fn); !errors.Is(err, kv.ErrBusy) {
			return err
		}
	}
}

// write commits pairs to a scope.
func write(t *testing.T, store kv.Store, scope string, pairs ...pair) {
	t.Helper()
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return putAll(tx, pairs)
	})
	if err != nil {
		t.Fatalf("write to scope %q: %v", scope, err)
	}
}

func putAll(tx kv.Tx, pairs []pair) error {
	for _, p := range pairs {
		if err := tx.Put([]byte(p.Key), []byte(p.Value)); err != nil {
			return err
		}
	}
	return nil
}

// read returns all of a scope.
func read(t *testing.T, store kv.Store, scope string) []pair {
	t.Helper()
	var pairs []pair
	err := store.View(t.Context(), scope, func(r kv.Reader) (err error) {
		pairs, err = scan(r, kv.ScanOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("read scope %q: %v", scope, err)
	}
	return pairs
}

func scan(r kv.Reader, opts kv.ScanOptions) ([]pair, error) {
	var pairs []pair
	err := r.Scan(opts, func(key, value []byte) error {
		pairs = append(pairs, pair{string(key), string(value)})
		return nil
	})
	return pairs, err
}
