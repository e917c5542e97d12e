package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// TestImport_Quota imports more files than a memory may have: those that fit are there, and the others are named.
func TestImport_Quota(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, servertest.WithSettings(memory.Settings{MaxFiles: new(int64(2))}),
		func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	memoryctl := func(args ...string) outcome {
		t.Helper()
		return run(t, strings.NewReader(""), append([]string{"--addr", listener.Addr().String()}, args...)...)
	}
	archive := filepath.Join(t.TempDir(), "memory.tar")
	for _, args := range [][]string{
		{"create", "-n", "from", "/memories/a", "1"},
		{"create", "-n", "from", "/memories/b", "22"},
		{"namespace", "set", "from", "--max-files=3"},
		{"create", "-n", "from", "/memories/c", "333"},
		{"export", "-n", "from", archive},
	} {
		if got := memoryctl(args...); got.Status != exitOK {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	got := memoryctl("import", "-n", "to", archive)
	const want = "The memory is full: 2 of 2 files. Delete or merge files first. Largest: /memories/b (2B), /memories/a (1B)"
	if got.Status != exitErrorResult || !strings.Contains(got.Stderr, want) {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got := memoryctl("tree", "-n", "to"); !strings.HasSuffix(got.Stdout, "0 directories, 2 files\n") {
		t.Errorf("got %+v, want 2 files", got)
	}
}

// TestImport_Rate imports and exports more files than there may be calls in a second: both take their time.
func TestImport_Rate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	memoryctl := func(args ...string) outcome {
		t.Helper()
		return run(t, strings.NewReader(""), append([]string{"--addr", listener.Addr().String()}, args...)...)
	}
	archive := filepath.Join(t.TempDir(), "memory.tar")
	for _, args := range [][]string{
		{"create", "-n", "from", "/memories/a", "1"},
		{"create", "-n", "from", "/memories/b", "22"},
		{"namespace", "set", "from", "--calls-per-second=2"},
		{"export", "-n", "from", archive},
		{"namespace", "set", "to", "--calls-per-second=1"},
		{"import", "-n", "to", archive},
		{"namespace", "set", "to", "--calls-per-second=0"},
	} {
		if got := memoryctl(args...); got.Status != exitOK {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	if got := memoryctl("tree", "-n", "to"); !strings.HasSuffix(got.Stdout, "0 directories, 2 files\n") {
		t.Errorf("got %+v, want 2 files", got)
	}
}
