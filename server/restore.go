package server

import (
	"context"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// Verify checks a backup file as Restore does, and changes nothing. What is wrong with it is an error.
func Verify(ctx context.Context, file string) (CheckReport, error) {
	store, err := boltkv.OpenBackup(ctx, file)
	if err != nil {
		return CheckReport{}, err
	}
	return checkAndClose(ctx, store)
}

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// File is the backup file.
	File string
	// Data is the data directory, which no server may have open. It is made if it is not there.
	Data string
	// Force takes the place of a store that is there, which is kept beside the new one.
	Force bool
}

// RestoreReport is what Restore did.
type RestoreReport struct {
	// Restored is what the store has now.
	Restored CheckReport
	// Kept is the path of the store that was there; "" where there was none.
	Kept string
}

// Restore makes what is in a backup file the store of a data directory. The file is verified before anything is
// touched. Without Force a store that is there is an error that is boltkv.ErrStoreExists.
func Restore(ctx context.Context, o RestoreOptions) (RestoreReport, error) {
	var report RestoreReport
	var err error
	report.Kept, err = boltkv.Restore(ctx, boltkv.RestoreOptions{
		File:  o.File,
		Dir:   o.Data,
		Force: o.Force,
		Check: func(ctx context.Context, backup *boltkv.Store) (err error) {
			report.Restored, err = checkNamespaces(ctx, backup)
			return err
		},
		Now: time.Now,
	})
	if err != nil {
		return RestoreReport{}, err
	}
	return report, nil
}
