package server

import (
	"context"
	"errors"
	"time"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// Verify checks a backup file as Restore does, and changes nothing. What is wrong with it is an error.
func Verify(ctx context.Context, file string, k Keyset) (CheckReport, error) {
	handle, err := k.read(ctx)
	if err != nil {
		return CheckReport{}, err
	}
	return verify(ctx, file, k, handle)
}

func verify(ctx context.Context, file string, k Keyset, handle *keyset.Handle) (CheckReport, error) {
	store, err := boltkv.OpenBackup(ctx, file)
	if err != nil {
		return CheckReport{}, err
	}
	return checkAndClose(ctx, store, k, handle)
}

// verifyFor returns Verify for the backups of a store that is open, with the keyset that is in force there.
func verifyFor(store kv.Store, k Keyset) func(ctx context.Context, file string) (CheckReport, error) {
	return func(ctx context.Context, file string) (CheckReport, error) {
		var handle *keyset.Handle
		if sealed, ok := kv.As[*sealkv.Store](store); ok {
			handle = sealed.Keyset()
		}
		return verify(ctx, file, k, handle)
	}
}

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// File is the backup file.
	File string
	// Data is the data directory, which no server may have open. It is made if it is not there.
	Data string
	// Keyset is what the backup is encrypted with. It is for the check: what is encrypted is restored as it is.
	Keyset Keyset
	// Force takes the place of a store that is there, which is kept beside the new one.
	Force bool
}

// RestoreReport is what Restore did.
type RestoreReport struct {
	// Restored is what the store has now.
	Restored CheckReport
	// Kept is the path of the store that was there; "" where there was none.
	Kept string
	// NoLongerEncrypted tells that the store that was there is encrypted, and what was restored is not. It is false where
	// the store that was there cannot be read.
	NoLongerEncrypted bool
}

// Restore makes what is in a backup file the store of a data directory. The file is verified before anything is
// touched. Without Force a store that is there is an error that is boltkv.ErrStoreExists.
func Restore(ctx context.Context, o RestoreOptions) (RestoreReport, error) {
	var report RestoreReport
	handle, err := o.Keyset.read(ctx)
	if err != nil {
		return RestoreReport{}, err
	}
	report.NoLongerEncrypted = handle == nil && o.Force && isEncrypted(ctx, o.Data)
	report.Kept, err = boltkv.Restore(ctx, boltkv.RestoreOptions{
		File:  o.File,
		Dir:   o.Data,
		Force: o.Force,
		Check: func(ctx context.Context, backup *boltkv.Store) (err error) {
			report.Restored, err = checkContents(ctx, backup, o.Keyset, handle)
			if errors.Is(err, sealkv.ErrPlainStore) {
				return &keysetError{ConfigError{"EncryptionKeyset", o.Keyset.File, "it must be empty, since the backup is not " +
					"encrypted; restore it without a keyset, and then encrypt it with this one: memoryd encrypt"}, err}
			}
			return err
		},
		Now: time.Now,
	})
	if err != nil {
		return RestoreReport{}, err
	}
	return report, nil
}

// isEncrypted tells whether the store in a directory is encrypted, as far as it can be read. What is wrong with it is
// no error here: it may be why a backup is restored.
func isEncrypted(ctx context.Context, dir string) bool {
	store, err := boltkv.Open(ctx, boltkv.Options{Dir: dir, ReadOnly: true, LockTimeout: lockTimeout})
	if err != nil {
		return false
	}
	defer func() { _ = store.Close() }() // It was only read.
	return errors.Is(sealkv.CheckPlain(ctx, store), sealkv.ErrNoKeyset)
}
