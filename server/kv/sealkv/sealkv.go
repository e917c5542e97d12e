// Package sealkv is a decorator of a kv.Store that encrypts the values. Keys, and so the paths of files, stay readable,
// and so do the names of scopes, the sizes of values, and when they change.
//
// Each scope has a data key of its own, made when something is first written there and gone when the last of it is
// deleted. The data keys are stored with the data, each wrapped (encrypted) by the primary key of a keyset, which is
// not:
//
//	keyset              the operator's: AES256-GCM keys, of which one is primary
//	  └─ wraps          data key of a scope: a keyset of its own
//	       └─ seals     values of the scope
//
// Keep this picture of what is stored true:
//
//	<scope>
//	├── 0x00 "sealkv.key"   : data key, wrapped; bound to the scope
//	└── <key>               : value, sealed with the data key; bound to scope and key
//	"~store"                  kv.ReservedScope
//	├── "sealkv.check"      : format version (1 byte), then a constant, wrapped as a data key is
//	├── "sealkv.next.<id>"  : the same, wrapped by a key that may wrap data keys since, while others still do
//	├── "boltkv.schema"     : what the engine keeps there is neither sealed nor shown
//	└── ...                   like any other scope
//
// What is wrapped or sealed has the form of Tink: 0x01, the id of the key (4 bytes), nonce (12), ciphertext, tag (16).
// So it can be told without the keyset which of its keys wraps what.
//
// A value that was changed, or moved to another key or scope, is kv.ErrCorrupt. That an older value of the same key was
// put back, or a key removed, cannot be told: who can write to the file can do that.
//
// A keyset is rotated by adding a key and making that primary. Rewrap then wraps every data key anew; what is sealed
// stays as it is. Before the new key wraps a first data key it wraps a check of its own, so that a keyset from before
// the rotation does not open the store any more, however far Rewrap came. The older keys have to stay in the keyset for
// as long as backups are kept that need them. Each data key gets a fresh part at that time, which seals what is written
// from then on: with random nonces a key of AES-GCM is good for 2^32 values.
//
// A key that was deleted may be found in the free pages of an engine's file, until they are used again or the file is
// compacted.
package sealkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// OverheadBytes is by how much a value grows when it is sealed. The engine must have been opened with this headroom.
const OverheadBytes = 5 + 12 + 16

// DefaultCachedKeys is how many data keys are kept ready to use, at about 2 KiB each.
const DefaultCachedKeys = 4096

// Options are the options of Open.
type Options struct {
	// Keyset wraps the data keys. It must not be nil.
	Keyset *keyset.Handle
	// CachedKeys is how many data keys are kept ready to use; 0 is DefaultCachedKeys.
	CachedKeys int
}

// Store is a kv.Store that seals values and keeps them in another.
type Store struct {
	store kv.Store
	cache *lru.Cache[string, *dataKey] // by scope

	setting sync.Mutex // held by SetKeyset
	keys    atomic.Pointer[keys]

	rewrapping sync.Mutex // held by Rewrap
	progress   atomic.Pointer[Progress]
}

var (
	_ kv.Store   = (*Store)(nil)
	_ kv.Checker = (*Store)(nil)
)

// Open returns a store that seals what it keeps in another, which was sealed with the same keyset before, or holds
// nothing yet. Else the error is ErrWrongKeyset or ErrPlainStore, and nothing was written. Closing the one closes the
// other.
func Open(ctx context.Context, store kv.Store, o Options) (*Store, error) {
	k, err := newKeys(o.Keyset)
	if err != nil {
		return nil, fmt.Errorf("open sealed store: %w", err)
	}
	if o.CachedKeys <= 0 {
		o.CachedKeys = DefaultCachedKeys
	}
	cache, err := lru.New[string, *dataKey](o.CachedKeys)
	if err != nil {
		return nil, fmt.Errorf("open sealed store: %w", err)
	}
	if err := claim(ctx, store, k); err != nil {
		return nil, err
	}
	s := &Store{store: store, cache: cache}
	s.keys.Store(k)
	s.progress.Store(&Progress{})
	return s, nil
}

// Unwrap returns the store that holds the sealed values.
func (s *Store) Unwrap() kv.Store { return s.store }

// View implements kv.Store. A Scan that is the first read of a transaction takes one round trip more, for the data key.
func (s *Store) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	k := s.keys.Load()
	return s.store.View(ctx, scope, func(below kv.Reader) error {
		r := txn.NewReader(s.newUnsealer(k, scope, below))
		defer r.End()
		return fn(r)
	})
}

// Update implements kv.Store. Values are sealed when fn has returned, those that were overwritten within it never. One
// that only scans for keys and deletes them needs no data key, so that a scope where that is damaged can be emptied.
func (s *Store) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	k := s.useKeys()
	defer k.using.RUnlock()
	if err := k.announce(ctx, s.store); err != nil {
		return err
	}
	return s.store.Update(ctx, scope, func(below kv.Tx) error {
		u := s.newUnsealer(k, scope, below)
		t := &tx{Tx: txn.NewTx(u, txn.NewLimits(0)), scope: scope}
		defer t.End()
		if err := fn(t); err != nil {
			return err
		}
		if t.failed != nil {
			return t.failed
		}
		return u.seal(below, t.Tx)
	})
}

// Keyset returns the keyset that is in force.
func (s *Store) Keyset() *keyset.Handle { return s.keys.Load().handle }

// Scopes implements kv.Store.
func (s *Store) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	return s.store.Scopes(ctx, after, limit)
}

// Close implements kv.Store. It closes the store below too.
func (s *Store) Close() error { return s.store.Close() }

// Check implements kv.Checker: the store below must be sound, and every value must be what was sealed.
func (s *Store) Check(ctx context.Context) error {
	if checker, ok := kv.As[kv.Checker](s.store); ok {
		if err := checker.Check(ctx); err != nil {
			return err
		}
	}
	return s.CheckValues(ctx)
}

// CheckValues returns an error that wraps kv.ErrCorrupt and names the scopes where a value is not what was sealed. It
// reads the whole store, each scope in one transaction.
func (s *Store) CheckValues(ctx context.Context) error {
	var problems []error
	check := func(scope string) error {
		err := s.View(ctx, scope, func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(_, _ []byte) error { return ctx.Err() })
		})
		if errors.Is(err, kv.ErrCorrupt) {
			problems = append(problems, fmt.Errorf("%s: %w", scope, err))
			return nil
		}
		return err
	}
	if err := eachScope(ctx, s.store, check); err != nil {
		return fmt.Errorf("check sealed store: %w", err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("check sealed store: %w", errors.Join(problems...))
	}
	return nil
}

// eachScope calls fn for every scope in byte order, and last for the reserved one.
func eachScope(ctx context.Context, store kv.Store, fn func(scope string) error) error {
	const page = 1000
	for after := ""; ; {
		names, err := store.Scopes(ctx, after, page)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
		if len(names) < page {
			return fn(kv.ReservedScope)
		}
		after = names[page-1]
	}
}
