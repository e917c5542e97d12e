package sealkv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// useKeys returns the keys for an update, which must release k.using. While any does not, SetKeyset waits.
func (s *Store) useKeys() *keys {
	for {
		k := s.keys.Load()
		k.using.RLock()
		if k == s.keys.Load() {
			return k
		}
		k.using.RUnlock()
	}
}

// SetKeyset makes a keyset that was rotated the one that new data keys are wrapped by; Rewrap does the rest. A keyset
// that lacks a key which may be in use is refused with ErrWrongKeyset, and the one before stays. That is the primary
// key, and until Rewrap came to its end every other key too. It waits for updates that run, but keeps none from
// starting.
func (s *Store) SetKeyset(ctx context.Context, handle *keyset.Handle) error {
	next, err := newKeys(handle)
	if err != nil {
		return fmt.Errorf("set keyset: %w", err)
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	now := s.keys.Load()
	done, err := s.wrappedByPrimary(ctx, now)
	if err != nil {
		return fmt.Errorf("set keyset: %w", err)
	}
	inUse := []uint32{now.primary}
	if !done {
		inUse = slices.Sorted(maps.Keys(now.enabled))
	}
	if missing := next.missing(now, inUse...); len(missing) > 0 {
		return fmt.Errorf("set keyset: keys %d are in use and missing: %w", missing, ErrWrongKeyset)
	}
	s.keys.Store(next)
	now.using.Lock() // No data key is wrapped by the old primary key from here on.
	defer now.using.Unlock()
	return nil
}

// wrappedByPrimary tells whether the primary key wraps every data key.
func (s *Store) wrappedByPrimary(ctx context.Context, k *keys) (bool, error) {
	checks, err := checksOf(ctx, s.store) // None in a store that is read-only and holds nothing.
	if err != nil {
		return false, err
	}
	for _, check := range checks {
		if id, err := checkedBy(check.value); err != nil || id != k.primary {
			return false, err
		}
	}
	return true, nil
}

// Progress is how far Rewrap has come.
type Progress struct {
	// Running tells whether Rewrap runs. The rest is zero before the first time.
	Running bool
	// Done is how many scopes it has seen to, of Total that there were when it began. New ones need nothing.
	Done, Total int
	// Failed is how many of those keep the key that they had, since their data key is damaged.
	Failed int
}

// Progress returns how far Rewrap has come, or came.
func (s *Store) Progress() Progress { return *s.progress.Load() }

// errKeysetSet means that the keyset was set while Rewrap ran.
var errKeysetSet = errors.New("keyset was set")

// Rewrap wraps every data key by the primary key of the keyset that is not yet, one small update each. Where that was
// done before it returns at once. It can be interrupted at any time: what is done is not done again. A data key that is
// damaged is an error in the end, which is kv.ErrCorrupt, and the others are done. Where the keyset is set meanwhile,
// it starts over with that.
//
// report is called after every scope; nil is not.
func (s *Store) Rewrap(ctx context.Context, report func(Progress)) error {
	s.rewrapping.Lock()
	defer s.rewrapping.Unlock()
	for {
		s.setting.Lock() // While the keyset is being set, updates may run that make data keys of the one before.
		k := s.keys.Load()
		s.setting.Unlock()
		done, err := s.wrappedByPrimary(ctx, k)
		if err == nil && !done {
			err = s.rewrapAll(ctx, k, report)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, errKeysetSet) {
			return fmt.Errorf("rewrap data keys: %w", err)
		}
	}
}

func (s *Store) rewrapAll(ctx context.Context, k *keys, report func(Progress)) error {
	if err := k.announce(ctx, s.store); err != nil {
		return err
	}
	p := Progress{Running: true}
	err := eachScope(ctx, s.store, func(string) error {
		p.Total++
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	publish := func() {
		s.progress.Store(new(p))
		if report != nil {
			report(p)
		}
	}
	defer func() {
		p.Running = false
		publish()
	}()
	var failed error
	err = eachScope(ctx, s.store, func(scope string) error {
		if s.keys.Load() != k {
			return errKeysetSet
		}
		err := s.rewrapScope(ctx, k, scope)
		if errors.Is(err, kv.ErrCorrupt) {
			p.Failed++
			failed = fmt.Errorf("%d of the data keys are damaged, the last that of %s: %w", p.Failed, scope, err)
			err = nil
		}
		if err != nil {
			return err
		}
		p.Done++
		p.Total = max(p.Total, p.Done)
		publish()
		return nil
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return s.store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
		if s.keys.Load() != k {
			return errKeysetSet
		}
		return k.settle(tx)
	})
}

func (s *Store) rewrapScope(ctx context.Context, k *keys, scope string) error {
	done := false
	err := s.store.View(ctx, scope, func(r kv.Reader) error {
		values, err := r.Get(keyName)
		done = err == nil && k.needsNothing(values[0])
		return err
	})
	if err != nil || done {
		return err
	}
	return s.store.Update(ctx, scope, func(tx kv.Tx) error {
		values, err := tx.Get(keyName)
		if err != nil || k.needsNothing(values[0]) {
			return err
		}
		key, err := k.rewrap(scope, values[0])
		if err != nil {
			return err
		}
		return tx.Put(keyName, key.wrapped)
	})
}

// needsNothing tells whether there is no data key, or one that the primary key wraps.
func (k *keys) needsNothing(wrapped []byte) bool {
	if wrapped == nil {
		return true
	}
	id, ok := wrappedBy(wrapped)
	return ok && id == k.primary
}

// KeyUse returns how many scopes need each key, by its id: it wraps the data key, or in the reserved scope a seal
// check. It needs no keyset: the store is the one that holds the sealed values.
func KeyUse(ctx context.Context, store kv.Store) (map[uint32]int, error) {
	use := map[uint32]int{}
	err := eachScope(ctx, store, func(scope string) error {
		return store.View(ctx, scope, func(r kv.Reader) error {
			ids, err := neededKeys(r, scope)
			for id := range ids {
				use[id]++
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count data keys: %w", err)
	}
	return use, nil
}

// neededKeys returns the ids of the keys that a scope needs.
func neededKeys(r kv.Reader, scope string) (map[uint32]bool, error) {
	ids := map[uint32]bool{}
	values, err := r.Get(keyName)
	if err != nil {
		return nil, err
	}
	if wrapped := values[0]; wrapped != nil {
		id, ok := wrappedBy(wrapped)
		if !ok {
			return nil, fmt.Errorf("data key of %s: %w", scope, kv.ErrCorrupt)
		}
		ids[id] = true
	}
	if scope != kv.ReservedScope {
		return ids, nil
	}
	checks, err := readChecks(r)
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		id, err := checkedBy(check.value)
		if err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, nil
}
