package sealkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Errors of a store and a keyset that do not belong together. Nothing was written.
var (
	// ErrNoKeyset means that the store is sealed and no keyset was given.
	ErrNoKeyset = errors.New("the store is encrypted, and no keyset was given")
	// ErrWrongKeyset means that the keyset is not the one that the store is sealed with, or has lost a key of it.
	ErrWrongKeyset = errors.New("it is not the keyset that the store was encrypted with")
	// ErrPlainStore means that a keyset was given and the store holds values that are not sealed.
	ErrPlainStore = errors.New("the store is not encrypted, and a keyset was given")
)

var (
	// checkName is the key of the seal check, by which a keyset that is not the store's is found out before anything is
	// written with it. It is wrapped by the key that every data key was wrapped by when Rewrap last came to its end.
	checkName = []byte("sealkv.check")
	// nextPrefix, with the id of a key, is the key of another seal check, by the key that data keys have been wrapped by
	// since then. A rotation that is interrupted by the next leaves several.
	nextPrefix = []byte("sealkv.next.")
	checkText  = []byte("memoryd")
)

// format is the version of what is stored. A newer one is refused.
const format = 1

// CheckPlain returns ErrNoKeyset for a store that is sealed. It writes nothing.
func CheckPlain(ctx context.Context, store kv.Store) error {
	checks, err := checksOf(ctx, store)
	if err == nil && len(checks) > 0 {
		err = ErrNoKeyset
	}
	return err
}

// CheckKeyset returns ErrWrongKeyset or ErrPlainStore for a store that Open would not open. It writes nothing.
func CheckKeyset(ctx context.Context, store kv.Store, handle *keyset.Handle) error {
	k, err := newKeys(handle)
	if err != nil {
		return err
	}
	_, err = belongs(ctx, store, k)
	return err
}

// claim checks that a store is sealed with a keyset, or seals it where it holds nothing.
func claim(ctx context.Context, store kv.Store, k *keys) error {
	sealed, err := belongs(ctx, store, k)
	if err != nil || sealed {
		return err
	}
	err = k.announce(ctx, store)
	if errors.Is(err, kv.ErrReadOnly) {
		return nil // There is nothing to read, and nothing will be written.
	}
	return err
}

// belongs tells whether a store is sealed, and with this keyset. One that holds nothing is not sealed.
func belongs(ctx context.Context, store kv.Store, k *keys) (sealed bool, err error) {
	checks, err := checksOf(ctx, store)
	if err != nil {
		return false, err
	}
	if len(checks) > 0 {
		return true, k.verify(checks)
	}
	scopes, err := store.Scopes(ctx, "", 1)
	if err != nil {
		return false, err
	}
	plain := len(scopes) > 0
	err = store.View(ctx, kv.ReservedScope, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{KeysOnly: true}, func(key, _ []byte) error {
			plain = plain || !isEngineKey(key)
			return nil
		})
	})
	if err == nil && plain {
		err = ErrPlainStore
	}
	return false, err
}

// readChecks returns the seal checks, of which a store that is not sealed has none.
func readChecks(r kv.Reader) (checks []pair, err error) {
	err = r.Scan(kv.ScanOptions{Prefix: []byte("sealkv.")}, func(key, value []byte) error {
		if bytes.Equal(key, checkName) || bytes.HasPrefix(key, nextPrefix) {
			checks = append(checks, pair{bytes.Clone(key), bytes.Clone(value)})
		}
		return nil
	})
	return checks, err
}

// checksOf returns the seal checks of a store.
func checksOf(ctx context.Context, store kv.Store) (checks []pair, err error) {
	err = store.View(ctx, kv.ReservedScope, func(r kv.Reader) error {
		checks, err = readChecks(r)
		return err
	})
	return checks, err
}

// checkedBy returns the id of the key that wraps a seal check.
func checkedBy(check []byte) (id uint32, err error) {
	if len(check) > 0 && check[0] > format {
		return 0, fmt.Errorf("the store is encrypted in format %d; this memoryd reads up to %d; use a newer memoryd",
			check[0], format)
	}
	if len(check) > 0 && check[0] == format {
		if id, ok := wrappedBy(check[1:]); ok {
			return id, nil
		}
	}
	return 0, fmt.Errorf("read seal check: %w", kv.ErrCorrupt)
}

// verify returns an error unless the keyset has the key of every seal check.
func (k *keys) verify(checks []pair) error {
	for _, check := range checks {
		id, err := checkedBy(check.value)
		if err != nil {
			return err
		}
		if _, ok := k.enabled[id]; !ok {
			return fmt.Errorf("key %d is missing: %w", id, ErrWrongKeyset)
		}
		if _, err := k.aead.Decrypt(check.value[1:], associatedData(bindCheck, kv.ReservedScope)); err != nil {
			return fmt.Errorf("key %d is another: %w", id, ErrWrongKeyset)
		}
		if id == k.primary {
			k.announced.Store(true)
		}
	}
	return nil
}

// announce writes a seal check by the primary key where there is none. From then on no keyset without that key opens
// the store, and so it may wrap data keys.
func (k *keys) announce(ctx context.Context, store kv.Store) error {
	if k.announced.Load() {
		return nil
	}
	err := store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
		checks, err := readChecks(tx)
		if err == nil {
			err = k.verify(checks) // Somebody else may have been quicker.
		}
		switch {
		case err != nil || k.announced.Load():
			return err
		case len(checks) == 0:
			return k.putCheck(tx, checkName)
		default:
			return k.putCheck(tx, fmt.Appendf(nil, "%s%d", nextPrefix, k.primary))
		}
	})
	if err != nil {
		return fmt.Errorf("write seal check: %w", err)
	}
	k.announced.Store(true)
	return nil
}

// settle makes the seal check by the primary key the only one: no other key wraps a data key any more.
func (k *keys) settle(tx kv.Tx) error {
	checks, err := readChecks(tx)
	if err != nil {
		return err
	}
	for _, check := range checks {
		if err := tx.Delete(check.key); err != nil {
			return err
		}
	}
	return k.putCheck(tx, checkName)
}

func (k *keys) putCheck(tx kv.Tx, name []byte) error {
	wrapped, err := k.aead.Encrypt(checkText, associatedData(bindCheck, kv.ReservedScope))
	if err != nil {
		return fmt.Errorf("wrap seal check: %w", err)
	}
	return tx.Put(name, append([]byte{format}, wrapped...))
}
