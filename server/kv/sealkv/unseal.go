package sealkv

import (
	"bytes"
	"fmt"
	"math"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// keyName is the key that holds the data key of a scope. The zero byte keeps it apart from the keys of callers.
var keyName = []byte("\x00sealkv.key")

// hidden tells whether callers see nothing of a key: it holds the data key, or belongs to an engine.
func hidden(scope string, key []byte) bool {
	return bytes.Equal(key, keyName) || scope == kv.ReservedScope && isEngineKey(key)
}

// isEngineKey tells whether a key of the reserved scope has the form of those of engines and decorators.
func isEngineKey(key []byte) bool {
	name, _, ok := bytes.Cut(key, []byte{'.'})
	if !ok || !bytes.HasSuffix(name, []byte("kv")) {
		return false
	}
	for _, c := range name {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// unsealer is one scope as callers see it. It is what their transactions read.
type unsealer struct {
	store *Store
	keys  *keys
	scope string
	below kv.Reader

	asked  bool     // for the data key
	key    *dataKey // nil where the scope has none, or before it was asked for
	ad     []byte   // what values are bound to, up to their key
	prefix int      // bytes of ad without the key
}

func (s *Store) newUnsealer(k *keys, scope string, below kv.Reader) *unsealer {
	ad := associatedData(bindValue, scope)
	return &unsealer{store: s, keys: k, scope: scope, below: below, ad: ad, prefix: len(ad)}
}

// Get implements kv.Reader. It asks for the data key along with the first keys.
func (u *unsealer) Get(keys ...[]byte) ([][]byte, error) {
	if len(keys) == 0 {
		return [][]byte{}, nil
	}
	all := keys
	if !u.asked {
		all = append(keys[:len(keys):len(keys)], keyName)
	}
	sealed, err := u.below.Get(all...)
	if err != nil {
		return nil, err
	}
	if !u.asked {
		if err := u.learn(sealed[len(keys)]); err != nil {
			return nil, err
		}
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if sealed[i] == nil || hidden(u.scope, key) {
			continue
		}
		if values[i], err = u.unseal(key, sealed[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Scan implements kv.Reader.
func (u *unsealer) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	if !opts.KeysOnly {
		if err := u.ask(); err != nil {
			return err
		}
	}
	below, left := opts, opts.Limit
	if u.mayMeetHidden(opts) && opts.Limit > 0 {
		if below.Limit++; u.scope == kv.ReservedScope || opts.Limit == math.MaxInt {
			below.Limit = 0 // Nobody knows how many of the engine's there are.
		}
	}
	return u.below.Scan(below, func(key, value []byte) error {
		if hidden(u.scope, key) {
			return nil
		}
		if !opts.KeysOnly {
			var err error
			if value, err = u.unseal(key, value); err != nil {
				return err
			}
		}
		if err := fn(key, value); err != nil {
			return err
		}
		if left--; left == 0 { // Where there is no limit it starts at zero and only goes down.
			return kv.Stop
		}
		return nil
	})
}

// mayMeetHidden tells whether a scan may come by keys that callers do not see.
func (u *unsealer) mayMeetHidden(opts kv.ScanOptions) bool {
	return u.scope == kv.ReservedScope ||
		bytes.Compare(txn.Start(opts), keyName) <= 0 && bytes.HasPrefix(keyName, opts.Prefix)
}

// ask gets the data key of the scope, once.
func (u *unsealer) ask() error {
	if u.asked {
		return nil
	}
	values, err := u.below.Get(keyName)
	if err != nil {
		return err
	}
	return u.learn(values[0])
}

// learn takes the data key from what is stored. A cached one counts only where it is the same: the scope may have been
// deleted and made again.
func (u *unsealer) learn(wrapped []byte) error {
	if wrapped == nil {
		u.asked = true
		return nil
	}
	key, ok := u.store.cache.Get(u.scope)
	if !ok || !bytes.Equal(key.wrapped, wrapped) {
		var err error
		if key, err = u.keys.unwrap(u.scope, wrapped); err != nil {
			return err
		}
		u.store.cache.Add(u.scope, key)
	}
	u.asked, u.key = true, key
	return nil
}

// bind returns what the value of a key is bound to. It is good until the next call.
func (u *unsealer) bind(key []byte) []byte {
	u.ad = append(u.ad[:u.prefix], key...)
	return u.ad
}

func (u *unsealer) unseal(key, sealed []byte) ([]byte, error) {
	if u.key == nil {
		return nil, fmt.Errorf("unseal value: its scope has no data key: %w", kv.ErrCorrupt)
	}
	value, err := u.key.aead.Decrypt(sealed, u.bind(key))
	if err != nil { // It says nothing that helps.
		return nil, fmt.Errorf("unseal value: it was changed or moved: %w", kv.ErrCorrupt)
	}
	if value == nil {
		value = []byte{} // nil would be absent.
	}
	return value, nil
}
