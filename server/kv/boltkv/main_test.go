package boltkv

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
)

// childEnv names what the test binary does when a test started it as a child: see children.
const childEnv = "BOLTKV_TEST_CHILD"

// children are the processes that tests start. They get a data directory and return the exit status.
var children = map[string]func(dir string) int{
	"hold":    childHold,
	"write":   childWrite,
	"restore": childRestore,
	"compact": childCompact,
	"rewrite": childRewrite,
	"migrate": childMigrate,
	"full":    childFull,
	"survive": childSurvive,
}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childEnv)]; ok {
		os.Exit(child(os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

// openTest opens a store that is checked when the test ends, open and closed.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	t.Cleanup(func() { checkClosed(t, o.Dir) })
	store, err := Open(context.Background(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	kvtest.Check(t, store)
	return store
}

// checkClosed checks the store of a directory as memoryd check does. A directory without a store is fine.
func checkClosed(t testing.TB, dir string) {
	t.Helper()
	store, err := Open(context.Background(), Options{Dir: dir, ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatalf("open to check: %v", err)
	}
	if err := errors.Join(store.Check(context.Background()), store.Close()); err != nil {
		t.Errorf("check of the closed store: %v", err)
	}
}

func TestConformance(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kv.Store { return openTest(t, Options{Dir: t.TempDir()}) })
}

// put is the function of an update that writes one key.
func put(key, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error { return tx.Put([]byte(key), []byte(value)) }
}

// mustPut commits one key.
func mustPut(t testing.TB, store kv.Store, scope, key, value string) {
	t.Helper()
	if err := store.Update(context.Background(), scope, put(key, value)); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// get returns the value of a key, "" where it is absent.
func get(t testing.TB, store kv.Store, scope, key string) string {
	t.Helper()
	var value string
	err := store.View(context.Background(), scope, func(r kv.Reader) error {
		values, err := r.Get([]byte(key))
		if err == nil {
			value = string(values[0])
		}
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return value
}
