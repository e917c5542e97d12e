package server

import (
	"context"
	"fmt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// CheckReport is what Check found.
type CheckReport struct {
	Namespaces int
	Files      int64
	Bytes      int64 // of all files
}

// Check verifies the store in a directory, which no server may have open, and changes nothing. What is wrong with it is
// an error.
func Check(ctx context.Context, dir string) (CheckReport, error) {
	store, err := boltkv.Open(ctx, boltkv.Options{Dir: dir, ReadOnly: true, LockTimeout: lockTimeout})
	if err != nil {
		return CheckReport{}, err
	}
	return checkAndClose(ctx, store)
}

// checkAndClose checks a store that was opened for reading.
func checkAndClose(ctx context.Context, store *boltkv.Store) (report CheckReport, err error) {
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close store: %w", closeErr)
		}
	}()
	if err := store.Check(ctx); err != nil {
		return CheckReport{}, err
	}
	return checkNamespaces(ctx, store)
}

// checkNamespaces checks the tree of every namespace.
func checkNamespaces(ctx context.Context, store kv.Store) (CheckReport, error) {
	tree, err := memory.New(store, memory.Options{})
	if err != nil {
		return CheckReport{}, err
	}
	var report CheckReport
	for after, more := "", true; more; more = after != "" {
		const page = 1000
		var namespaces []memory.Namespace
		namespaces, after, err = tree.Namespaces(ctx, after, page)
		if err != nil {
			return CheckReport{}, fmt.Errorf("read namespaces: %w", err)
		}
		for _, n := range namespaces {
			if err := tree.Check(ctx, n.Name); err != nil {
				return CheckReport{}, fmt.Errorf("namespace %s: %w", n.Name, err)
			}
			report.Namespaces++
			report.Files += n.FileCount
			report.Bytes += n.Size
		}
	}
	return report, nil
}
