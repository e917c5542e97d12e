package sealkv

import (
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
	checkText = []byte("memoryd")
)

// format is the version of what is stored. A newer one is refused.
const format = 1

// CheckPlain returns ErrNoKeyset for a store that is sealed. It writes nothing.
func CheckPlain(ctx context.Context, store kv.Store) error {
	check, err := readCheck(ctx, store)
	if err == nil && check != nil {
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
	err = store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
		values, err := tx.Get(checkName)
		if err != nil {
			return err
		}
		if values[0] != nil { // Somebody else was quicker.
			return k.verify(values[0])
		}
		return k.putCheck(tx)
	})
	if errors.Is(err, kv.ErrReadOnly) {
		return nil // There is nothing to read, and nothing will be written.
	}
	return err
}

// belongs tells whether a store is sealed, and with this keyset. One that holds nothing is not sealed.
func belongs(ctx context.Context, store kv.Store, k *keys) (sealed bool, err error) {
	check, err := readCheck(ctx, store)
	if err != nil {
		return false, err
	}
	if check != nil {
		return true, k.verify(check)
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

// readCheck returns the seal check of a store, nil where there is none.
func readCheck(ctx context.Context, store kv.Store) (check []byte, err error) {
	err = store.View(ctx, kv.ReservedScope, func(r kv.Reader) error {
		values, err := r.Get(checkName)
		if err == nil && values[0] != nil {
			check = append([]byte{}, values[0]...)
		}
		return err
	})
	return check, err
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

func (k *keys) verify(check []byte) error {
	id, err := checkedBy(check)
	if err != nil {
		return err
	}
	if _, ok := k.enabled[id]; !ok {
		return fmt.Errorf("key %d is missing: %w", id, ErrWrongKeyset)
	}
	if _, err := k.aead.Decrypt(check[1:], associatedData(bindCheck, kv.ReservedScope)); err != nil {
		return fmt.Errorf("key %d is another: %w", id, ErrWrongKeyset)
	}
	return nil
}

func (k *keys) putCheck(tx kv.Tx) error {
	wrapped, err := k.aead.Encrypt(checkText, associatedData(bindCheck, kv.ReservedScope))
	if err != nil {
		return fmt.Errorf("wrap seal check: %w", err)
	}
	return tx.Put(checkName, append([]byte{format}, wrapped...))
}
