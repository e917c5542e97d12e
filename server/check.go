package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// CheckReport is what Check found.
type CheckReport struct {
	Namespaces int
	Files      int64
	Bytes      int64 // of all files
}

// Check verifies the store in a directory, which no server may have open, and changes nothing. What is wrong with it is
// an error. Where it is encrypted, every value is decrypted with the keyset; that of another store is a *ConfigError.
func Check(ctx context.Context, dir string, k Keyset) (CheckReport, error) {
	handle, err := k.read(ctx)
	if err != nil {
		return CheckReport{}, err
	}
	store, err := boltkv.Open(ctx, boltkv.Options{Dir: dir, ReadOnly: true, LockTimeout: lockTimeout})
	if err != nil {
		return CheckReport{}, err
	}
	return checkAndClose(ctx, store, k, handle)
}

// checkAndClose checks a store that was opened for reading.
func checkAndClose(
	ctx context.Context, store *boltkv.Store, k Keyset, handle *keyset.Handle,
) (report CheckReport, err error) {
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close store: %w", closeErr)
		}
	}()
	if err := store.Check(ctx); err != nil {
		return CheckReport{}, err
	}
	return checkContents(ctx, store, k, handle)
}

// checkContents checks what is in a store that is sound.
func checkContents(ctx context.Context, store kv.Store, k Keyset, handle *keyset.Handle) (CheckReport, error) {
	store, err := k.unseal(ctx, store, handle)
	if err != nil {
		return CheckReport{}, err
	}
	if sealed, ok := store.(*sealkv.Store); ok {
		if err := sealed.CheckValues(ctx); err != nil {
			return CheckReport{}, err
		}
	}
	return checkNamespaces(ctx, store)
}

// checkNamespaces checks the tree of every namespace, and names all that is wrong.
func checkNamespaces(ctx context.Context, store kv.Store) (CheckReport, error) {
	tree, err := memory.New(store, memory.Options{})
	if err != nil {
		return CheckReport{}, err
	}
	var report CheckReport
	var problems []error
	const page = 1000
	for after := ""; ; {
		names, err := store.Scopes(ctx, after, page)
		if err != nil {
			return CheckReport{}, fmt.Errorf("read namespaces: %w", err)
		}
		for _, name := range names {
			if err := checkNamespace(ctx, tree, name, &report); err != nil {
				problems = append(problems, fmt.Errorf("namespace %s: %w", name, err))
			}
		}
		if len(names) < page {
			return report, errors.Join(problems...)
		}
		after = names[page-1]
	}
}

// checkNamespace checks one namespace and counts what is in it.
func checkNamespace(ctx context.Context, tree *memory.Memory, name string, report *CheckReport) error {
	n, err := tree.Namespace(ctx, name)
	if err != nil {
		return err
	}
	if n.Revision == 0 { // It is being deleted.
		return nil
	}
	report.Namespaces++
	report.Files += n.FileCount
	report.Bytes += n.Size
	return tree.Check(ctx, name)
}
