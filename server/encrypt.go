package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// ErrEncrypted means that a store is encrypted already.
var ErrEncrypted = errors.New("the store is encrypted already")

// EncryptReport is what Encrypt did.
type EncryptReport struct {
	// Encrypted is what the store has.
	Encrypted CheckReport
	// Kept is the path of the store that is not encrypted.
	Kept string
}

// Encrypt makes a store that is encrypted with a keyset of the one in a directory, which no server may have open and
// which is not encrypted, checks it, and puts it in its place. The one that was there is kept beside it. A crash leaves
// the one or the other. The logger gets what opening the store takes; nil discards it.
func Encrypt(ctx context.Context, dir string, k Keyset, logger *slog.Logger) (EncryptReport, error) {
	var report EncryptReport
	handle, err := k.read(ctx)
	if err == nil && handle == nil {
		err = &ConfigError{"EncryptionKeyset", "", "it must be the keyset to encrypt with; memoryd keyset new makes one"}
	}
	if err != nil {
		return EncryptReport{}, err
	}
	_, err = Check(ctx, dir, Keyset{})
	if errors.Is(err, sealkv.ErrNoKeyset) {
		err = ErrEncrypted
	}
	if err != nil {
		return EncryptReport{}, fmt.Errorf("encrypt store: %w", err)
	}
	report.Kept, err = boltkv.Rewrite(ctx, boltkv.RewriteOptions{
		Options: boltkv.Options{
			Dir: dir, LockTimeout: lockTimeout, Logger: logger, OverheadBytes: sealkv.OverheadBytes, Check: sealkv.CheckPlain,
		},
		Fill: func(ctx context.Context, old, to kv.Store) error {
			sealed, err := sealkv.Open(ctx, to, sealkv.Options{Keyset: handle})
			if err != nil {
				return err
			}
			if err := sealkv.Copy(ctx, old, sealed); err != nil {
				return err
			}
			report.Encrypted, err = checkNamespaces(ctx, sealed)
			return err
		},
		Suffix: "before-encrypt",
		Now:    time.Now,
	})
	if err != nil {
		return EncryptReport{}, fmt.Errorf("encrypt store: %w", err)
	}
	return report, nil
}

// KeysetUse returns how many namespaces of the store in a directory, which no server may have open, need each key, by
// its id. It needs no keyset. The store itself counts as one; while a rotation is under way it needs each of its keys.
func KeysetUse(ctx context.Context, dir string) (use map[uint32]int, err error) {
	store, err := boltkv.Open(ctx, boltkv.Options{Dir: dir, ReadOnly: true, LockTimeout: lockTimeout})
	if err != nil {
		return nil, err
	}
	use, err = sealkv.KeyUse(ctx, store)
	return use, errors.Join(err, store.Close())
}
