package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// fixture is a store that takes long to make. It is made once and kept; every server gets a copy.
type fixture struct {
	name string
	make func(ctx context.Context, m *service) error
}

const (
	// fixtureDir is the directory for fixtures in that for data. It is not removed.
	fixtureDir = "memoryd-bench-stores"
	// fillers is how many make a fixture at once.
	fillers = 64
	// scaleNamespaceFiles is how many files a namespace has in the stores that are compared by their size.
	scaleNamespaceFiles = 2_000
)

// unlimited lets a namespace have any number of files, as a fixture's that gets more during a run.
var unlimited = []string{"--max-files", "0", "--max-total-bytes", "0"}

func scaleNamespace(n int) string { return fmt.Sprintf("bench/scale-%d", n) }

// filesFixture is a store of so many files of 2 KB, scaleNamespaceFiles in a namespace.
func filesFixture(files int) fixture {
	return fixture{fmt.Sprintf("files-%d", files), func(ctx context.Context, m *service) error {
		return inParallel(ctx, files/scaleNamespaceFiles, func(ctx context.Context, n int) error {
			return m.fill(ctx, scaleNamespace(n), scaleNamespaceFiles, fileBytes, pathOf)
		})
	}}
}

// manyNamespaces is how many namespaces are compared with as many directories of one.
const manyNamespaces = 100_000

const oneNamespace = "bench/one"

func manyNamespace(n int) string { return fmt.Sprintf("bench/many-%d", n) }

// namespacesFixture is a store of manyNamespaces with one file each.
func namespacesFixture() fixture {
	return fixture{"namespaces", func(ctx context.Context, m *service) error {
		return inParallel(ctx, manyNamespaces, func(ctx context.Context, n int) error {
			return m.create(ctx, manyNamespace(n), "/memories/"+noteName, textOf(n))
		})
	}}
}

// directoriesFixture is a store of one namespace with as many directories of one file each.
func directoriesFixture() fixture {
	return fixture{"directories", func(ctx context.Context, m *service) error {
		return m.fill(ctx, oneNamespace, manyNamespaces, fileBytes, func(n int) string {
			return directoryOf(n) + "/" + noteName
		})
	}}
}

const noteName = "note.md"

func directoryOf(n int) string { return fmt.Sprintf("/memories/many-%d", n) }

// inParallel calls fn with the numbers below n, fillers at a time.
func inParallel(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fillers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}

// startOn starts a memoryd on a copy of a fixture, which it makes first where that is not there.
func (b *bench) startOn(ctx context.Context, f fixture) (*service, error) {
	kept := filepath.Join(b.options.dir, fixtureDir, f.name)
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		if err := b.makeFixture(ctx, f, kept); err != nil {
			return nil, fmt.Errorf("make store %s: %w", f.name, err)
		}
	} else if err != nil {
		return nil, err
	}
	maker, err := os.ReadFile(filepath.Join(kept, makerName))
	if err != nil {
		return nil, err
	}
	if version := b.report.Versions[nameMemoryd]; string(maker) != version {
		b.note("The store %s was made by memoryd %s, not by %s: to have it made again, remove %s.",
			f.name, maker, version, kept)
	}
	_, dir, err := b.newDir(nameMemoryd)
	if err != nil {
		return nil, err
	}
	if err := copyFile(filepath.Join(kept, databaseName), filepath.Join(dir, databaseName)); err != nil {
		return nil, err
	}
	return b.startMemorydOn(ctx, dir, unlimited...)
}

const (
	// databaseName is the file in which memoryd keeps its data.
	databaseName = "memoryd.db"
	// makerName is the file that says which memoryd has made a fixture.
	makerName = "made-by"
)

// makeFixture makes a fixture aside, so that what is there is whole.
func (b *bench) makeFixture(ctx context.Context, f fixture, kept string) error {
	fmt.Fprintf(b.progress, "making the store %s, which takes minutes; it is kept in %s\n", f.name, kept)
	m, err := b.startMemoryd(ctx, unlimited...)
	if err != nil {
		return err
	}
	if err := f.make(ctx, m); err != nil {
		return err
	}
	if err := m.Stop(); err != nil {
		return err
	}
	version := []byte(b.report.Versions[nameMemoryd])
	if err := os.WriteFile(filepath.Join(m.data, makerName), version, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	return os.Rename(m.data, kept)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync() // so that no server writes what was copied
}
