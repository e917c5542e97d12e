package sealkv

import (
	"fmt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// tx is the transaction that callers get. It refuses the keys that they do not see.
type tx struct {
	*txn.Tx
	scope  string
	failed error // the first error of a Put or Delete
}

// Put implements kv.Tx.
func (t *tx) Put(key, value []byte) error {
	if err := t.admit(key); err != nil {
		return err
	}
	return t.note(t.Tx.Put(key, value))
}

// Delete implements kv.Tx.
func (t *tx) Delete(key []byte) error {
	if err := t.admit(key); err != nil {
		return err
	}
	return t.note(t.Tx.Delete(key))
}

func (t *tx) admit(key []byte) error {
	if hidden(t.scope, key) {
		return t.note(fmt.Errorf("write: key %q belongs to the store: %w", key, kv.ErrInvalid))
	}
	return nil
}

func (t *tx) note(err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// seal seals what a transaction wrote and writes it to the store below. Deletions alone take no data key.
func (u *unsealer) seal(below kv.Tx, t *txn.Tx) error {
	puts, deletes := false, false
	for key, value := range t.Writes() {
		var err error
		if value == nil {
			deletes = true
			err = below.Delete(key)
		} else {
			puts = true
			err = u.put(below, key, value)
		}
		if err != nil {
			return err
		}
	}
	noKey := u.asked && u.key == nil
	if puts || !deletes || noKey || u.scope == kv.ReservedScope {
		return nil
	}
	return u.dropKeyOfNothing(below)
}

func (u *unsealer) put(below kv.Tx, key, value []byte) error {
	if err := u.ask(); err != nil {
		return err
	}
	if u.key == nil {
		// It is of this run of the function. Where that is not committed, nothing stored equals it.
		made, err := u.keys.newDataKey(u.scope)
		if err != nil {
			return err
		}
		if err := below.Put(keyName, made.wrapped); err != nil {
			return err
		}
		u.key = made
	}
	sealed, err := u.key.aead.Encrypt(value, u.bind(key))
	if err != nil {
		return fmt.Errorf("seal value: %w", err)
	}
	return below.Put(key, sealed)
}

// dropKeyOfNothing deletes the data key where nothing is left that it seals.
func (u *unsealer) dropKeyOfNothing(below kv.Tx) error {
	empty := true
	err := below.Scan(kv.ScanOptions{Limit: 2, KeysOnly: true}, func(key, _ []byte) error {
		empty = empty && hidden(u.scope, key)
		return nil
	})
	if err != nil || !empty {
		return err
	}
	u.store.cache.Remove(u.scope) // Where this is not committed, it is unwrapped once more.
	return below.Delete(keyName)
}
