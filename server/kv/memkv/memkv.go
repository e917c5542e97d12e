// Package memkv keeps a kv.Store in memory, for tests and throw-away services. What can be seen of it is what can be
// seen of every other engine, limits included; a difference is a bug.
//
// A scope is a sorted slice of entries that never changes. An update makes a new one, which costs as much as the scope
// is long, so a View is just the slice of the moment.
package memkv

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// Store is a kv.Store in memory.
type Store struct {
	limits txn.Limits

	running sync.RWMutex // held for reading by every transaction, for writing by Close
	closed  bool         // guarded by running

	update sync.Mutex // held by the one update that runs

	mu     sync.RWMutex
	scopes map[string]snapshot // guarded by mu; no snapshot is empty
}

var _ kv.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return NewWithHeadroom(0) }

// NewWithHeadroom returns an empty store for a decorator that adds so many bytes to each value, at most
// kv.MaxOverheadBytes.
func NewWithHeadroom(overheadBytes int) *Store {
	return &Store{limits: txn.NewLimits(overheadBytes), scopes: map[string]snapshot{}}
}

// View implements kv.Store.
func (s *Store) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	if err := s.begin(ctx, scope); err != nil {
		return err
	}
	defer s.running.RUnlock()

	r := txn.NewReader(s.snapshot(scope))
	defer r.End()
	return fn(r)
}

// Update implements kv.Store.
func (s *Store) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	if err := s.begin(ctx, scope); err != nil {
		return err
	}
	defer s.running.RUnlock()
	s.update.Lock()
	defer s.update.Unlock()
	if err := ctx.Err(); err != nil { // The context may have ended while other updates ran.
		return err
	}

	before := s.snapshot(scope)
	t := txn.NewTx(before, s.limits)
	defer t.End()
	if err := fn(t); err != nil {
		return err
	}
	if err := t.Err(); err != nil {
		return err
	}
	if n, _ := t.Size(); n > 0 {
		s.publish(scope, before.with(t))
	}
	return nil
}

// Scopes implements kv.Store.
func (s *Store) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("list scopes: limit of %d: %w", limit, kv.ErrInvalid)
	}
	if err := s.begin(ctx, kv.ReservedScope); err != nil {
		return nil, err
	}
	defer s.running.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()

	var names []string
	for name := range s.scopes {
		if name > after && name != kv.ReservedScope {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(limit, len(names))], nil
}

// Close implements kv.Store.
func (s *Store) Close() error {
	s.running.Lock()
	defer s.running.Unlock()
	if s.closed {
		return fmt.Errorf("close store: %w", kv.ErrClosed)
	}
	s.closed = true
	s.scopes = nil
	return nil
}

// begin returns with s.running held for reading, unless there is an error.
func (s *Store) begin(ctx context.Context, scope string) error {
	if err := txn.CheckScope(scope); err != nil {
		return err
	}
	s.running.RLock()
	err := ctx.Err()
	if s.closed {
		err = fmt.Errorf("begin transaction: %w", kv.ErrClosed)
	}
	if err != nil {
		s.running.RUnlock()
	}
	return err
}

func (s *Store) snapshot(scope string) snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.scopes[scope]
}

func (s *Store) publish(scope string, next snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(next) == 0 {
		delete(s.scopes, scope)
		return
	}
	s.scopes[scope] = next
}

// snapshot is the content of a scope, in byte order of the keys. It never changes.
type snapshot []entry

type entry struct {
	key, value []byte // value is never nil; no spare capacity, so that an append copies
}

// find returns the place of a key, or where it would be.
func (s snapshot) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s, key, func(e entry, key []byte) int { return bytes.Compare(e.key, key) })
}

// Get implements kv.Reader.
func (s snapshot) Get(keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if place, ok := s.find(key); ok {
			values[i] = s[place].value
		}
	}
	return values, nil
}

// Scan implements kv.Reader.
func (s snapshot) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	first, _ := s.find(txn.Start(opts))
	for i, e := range s[first:] {
		if !bytes.HasPrefix(e.key, opts.Prefix) || opts.Limit > 0 && i >= opts.Limit {
			return nil
		}
		if opts.KeysOnly {
			e.value = nil
		}
		if err := fn(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// with returns what the snapshot becomes by the writes of t.
func (s snapshot) with(t *txn.Tx) snapshot {
	n, _ := t.Size()
	next := make(snapshot, 0, len(s)+n)
	for key, value := range t.Writes() {
		place, ok := s.find(key)
		next = append(next, s[:place]...)
		s = s[place:]
		if ok {
			s = s[1:]
		}
		if value != nil {
			next = append(next, entry{slices.Clip(key), slices.Clip(value)})
		}
	}
	return append(next, s...)
}
