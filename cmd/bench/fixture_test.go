package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/report"
)

// newBench returns a run without groups, which ends with the test.
func newBench(t *testing.T, memoryd string) *bench {
	t.Helper()
	b := &bench{
		options: &options{
			slices: minSlices, slice: quickSlice, dir: t.TempDir(), memoryd: memoryd, etcd: beside("etcd"), node: "node",
		},
		dir: openDir(t), progress: t.Output(),
		report: &report.Report{Versions: map[string]string{nameMemoryd: "v1"}},
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// openDir makes a directory that other users can reach, as PostgreSQL has to where root runs the tests.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(defaultDir(), "memoryd-bench-test-") //nolint:usetesting // Nobody else reaches t.TempDir.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A store is made once, and what a server does to its copy does not touch it.
func TestFixture(t *testing.T) {
	b := newBench(t, buildMemoryd(t))
	made := 0
	f := fixture{"small", func(ctx context.Context, m *service) error {
		made++
		return m.fill(ctx, oneNamespace, batchFiles+1, fileBytes, pathOf)
	}}
	for range 2 {
		m, err := b.startOn(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for n := range batchFiles + 1 {
			if err := m.view(t.Context(), oneNamespace, pathOf(n)); err != nil {
				t.Errorf("file %d: %v", n, err)
			}
		}
		if err := m.create(t.Context(), oneNamespace, "/memories/new", ""); err != nil {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("the store was made %d times, want once", made)
	}
	if len(b.report.Notes) > 0 {
		t.Errorf("got notes %q", b.report.Notes)
	}
	b.report.Versions[nameMemoryd] = "v2"
	if _, err := b.startOn(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if len(b.report.Notes) != 1 || !strings.Contains(b.report.Notes[0], "made by memoryd v1, not by v2") {
		t.Errorf("got notes %q, want that another memoryd has made it", b.report.Notes)
	}
	if err := os.RemoveAll(filepath.Join(b.options.dir, fixtureDir)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.startOn(t.Context(), f); err != nil || made != 2 {
		t.Errorf("a store that was removed: made %d times, %v", made, err)
	}
}
