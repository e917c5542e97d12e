package kvtest

import (
	"context"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// Harsh returns a store that takes every liberty of the contract with what uses it: it runs the function of an Update
// twice, and overwrites the bytes that a transaction gave as soon as the transaction ends.
func Harsh(store kv.Store) kv.Store { return &harsh{store} }

type harsh struct {
	kv.Store
}

// Unwrap returns the store that does the work.
func (h *harsh) Unwrap() kv.Store { return h.Store }

// View implements kv.Store.
func (h *harsh) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	return h.Store.View(ctx, scope, func(r kv.Reader) error {
		perishable := &perishableReader{Reader: r}
		defer perishable.perish()
		return fn(perishable)
	})
}

// Update implements kv.Store.
func (h *harsh) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	return h.Store.Update(ctx, scope, func(tx kv.Tx) error {
		trial := txn.NewTx(tx, txn.NewLimits(kv.MaxOverheadBytes)) // It refuses nothing that tx would take.
		_ = runPerishable(trial, fn)                               // The second run decides.
		trial.End()
		return runPerishable(tx, fn)
	})
}

func runPerishable(tx kv.Tx, fn func(kv.Tx) error) error {
	perishable := &perishableTx{Tx: tx, reads: perishableReader{Reader: tx}}
	defer perishable.reads.perish()
	return fn(perishable)
}

// perishableReader gives copies and remembers them.
type perishableReader struct {
	kv.Reader
	given [][]byte
}

func (p *perishableReader) perish() {
	for _, b := range p.given {
		for i := range b {
			b[i] = '!'
		}
	}
}

func (p *perishableReader) give(b []byte) []byte {
	if b == nil {
		return nil
	}
	b = append(make([]byte, 0, len(b)), b...)
	p.given = append(p.given, b)
	return b
}

// Get implements kv.Reader.
func (p *perishableReader) Get(keys ...[]byte) ([][]byte, error) {
	values, err := p.Reader.Get(keys...)
	for i, value := range values {
		values[i] = p.give(value)
	}
	return values, err
}

// Scan implements kv.Reader.
func (p *perishableReader) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	return p.Reader.Scan(opts, func(key, value []byte) error { return fn(p.give(key), p.give(value)) })
}

type perishableTx struct {
	kv.Tx
	reads perishableReader
}

// Get implements kv.Reader.
func (p *perishableTx) Get(keys ...[]byte) ([][]byte, error) { return p.reads.Get(keys...) }

// Scan implements kv.Reader.
func (p *perishableTx) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	return p.reads.Scan(opts, fn)
}
