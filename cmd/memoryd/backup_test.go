package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// backedUp makes a data directory with one file of 5 bytes, and a backup of it from before a second file of 7.
func backedUp(t *testing.T) (data, backup string) {
	t.Helper()
	t.Chdir(t.TempDir()) // The name of a socket must be short.
	data, backup = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	_, stop := startDaemon(t, "--listen=unix:m.sock", "--http=", "--data="+data)
	create(t, "unix:m.sock")
	c, err := client.Dial("unix:m.sock", client.WithDialOptions(
		grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(backup)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Backup(t.Context(), &memoryv1.BackupRequest{}, file, nil)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	resp, err := c.Create(t.Context(), &memoryv1.CreateRequest{
		Namespace: "n", Path: "/memories/g", FileText: "1234567",
	})
	if err := errors.Join(err, c.Close()); err != nil || resp.GetResult().GetIsError() {
		t.Fatalf("%v, %v", resp, err)
	}
	if status := stop(); status != 0 {
		t.Fatalf("got status %d, want 0", status)
	}
	return data, backup
}

func TestVerify(t *testing.T) {
	_, backup := backedUp(t)
	want := outcome{Stdout: backup + " is a whole backup. Namespaces: 1. Files: 1. Bytes: 5.\n"}
	wantOutcome(t, memoryd(t, nil, "verify", backup), want)
	wantOutcome(t, memoryd(t, nil, "verify", backup), want) // It changed nothing.

	info, err := os.Stat(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(backup, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, memoryd(t, nil, "verify", backup), outcome{Status: 1, Stderr: fmt.Sprintf(
		"memoryd: verify %s: open backup: %s is truncated, it has %d bytes of %d: store is corrupt\n",
		backup, backup, info.Size()-1, info.Size())})
}

// A store is none of its backups, and whoever takes it for one reads what can be done with it.
func TestRestore_Store(t *testing.T) {
	data, _ := backedUp(t)
	store := filepath.Join(data, "memoryd.db")
	refused := "open backup: " + store + " is a store and no backup, or a backup without the checksum at its end; memoryd " +
		"check looks at a store; to go back to one that was kept, rename it to memoryd.db while no service runs\n"
	wantOutcome(t, memoryd(t, nil, "verify", store), outcome{1, "", "memoryd: verify " + store + ": " + refused})
	fresh := filepath.Join(t.TempDir(), "fresh")
	wantOutcome(t, memoryd(t, nil, "restore", store, "--data="+fresh), outcome{1, "", "memoryd: restore: " + refused})
	wantOutcome(t, memoryd(t, nil, "check", "--data="+data), outcome{
		Stdout: data + " is well-formed. Namespaces: 1. Files: 2. Bytes: 12.\n",
	})
}

func TestRestore(t *testing.T) {
	data, backup := backedUp(t)
	fresh := filepath.Join(t.TempDir(), "fresh")
	wantOutcome(t, memoryd(t, nil, "restore", backup, "--data="+fresh), outcome{Stdout: fmt.Sprintf(
		"%s was restored from %s. Namespaces: 1. Files: 1. Bytes: 5.\n", fresh, backup)})
	wantOutcome(t, memoryd(t, nil, "check", "--data="+fresh), outcome{
		Stdout: fresh + " is well-formed. Namespaces: 1. Files: 1. Bytes: 5.\n",
	})

	wantOutcome(t, memoryd(t, nil, "restore", backup, "--data="+data), outcome{Status: 1, Stderr: fmt.Sprintf(
		"memoryd: restore: %s holds a store already; --force keeps it beside the new one\n", data)})
	got := memoryd(t, nil, "restore", backup, "--data="+data, "--force")
	match := regexp.MustCompile(`(?s)^(.*)What was there is kept as (\S+/memoryd\.db\.before-restore-\d{8}T\d{6}Z)\. ` +
		`To go back to it, rename it to memoryd\.db\.\n$`).FindStringSubmatch(got.Stdout)
	if match == nil {
		t.Fatalf("got %+v, want where the old store is kept", got)
	}
	got.Stdout = match[1]
	wantOutcome(t, got, outcome{Stdout: fmt.Sprintf(
		"%s was restored from %s. Namespaces: 1. Files: 1. Bytes: 5.\n", data, backup)})
	old := t.TempDir()
	if err := os.Rename(match[2], filepath.Join(old, "memoryd.db")); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, memoryd(t, nil, "check", "--data="+old), outcome{
		Stdout: old + " is well-formed. Namespaces: 1. Files: 2. Bytes: 12.\n",
	})
}

// TestRestore_Encryption goes from a backup that is not encrypted to memories that are, as the errors lead.
func TestRestore_Encryption(t *testing.T) {
	data, backup := backedUp(t)
	keyset, path := newKeyset(t)
	if got := memoryd(t, nil, "encrypt", "--data="+data, keyset); got.Status != 0 {
		t.Fatalf("encrypt: got %+v", got)
	}
	removeKept := func() { // or the next, within a second, would have the same name
		t.Helper()
		kept, err := filepath.Glob(filepath.Join(data, "memoryd.db.before-*"))
		for _, path := range kept {
			err = errors.Join(err, os.Remove(path))
		}
		if err != nil || len(kept) == 0 {
			t.Fatalf("got %q kept, %v", kept, err)
		}
	}
	removeKept()
	vars := map[string]string{"MEMORYD_DATA": data, "MEMORYD_ENCRYPTION_KEYSET": path}
	wantOutcome(t, memoryd(t, vars, "restore", "--force", backup), outcome{Status: exitUsage, Stderr: "memoryd: " +
		"--encryption-keyset is " + path + " (env MEMORYD_ENCRYPTION_KEYSET): it must be empty, since the backup is not " +
		"encrypted; restore it without a keyset, and then encrypt it with this one: memoryd encrypt\n"})
	got := memoryd(t, vars, "restore", "--force", backup, "--encryption-keyset=")
	const want = ".\nThe memories that were restored are not encrypted, while those that were there are: " +
		"memoryd encrypt encrypts them.\n"
	if got.Status != exitOK || !strings.HasSuffix(got.Stdout, want) || got.Stderr != "" {
		t.Errorf("restore without the keyset: got %+v, want %q", got, want)
	}
	removeKept()
	again := memoryd(t, vars, "restore", "--force", backup, "--encryption-keyset=")
	if again.Status != exitOK || strings.Contains(again.Stdout, "not encrypted") {
		t.Errorf("restore over memories that are not encrypted: got %+v", again)
	}
	removeKept()
	if got := memoryd(t, vars, "encrypt"); got.Status != exitOK {
		t.Errorf("encrypt: got %+v", got)
	}
	wantOutcome(t, memoryd(t, vars, "check"), outcome{Stdout: data + " is well-formed. Namespaces: 1. Files: 1. Bytes: 5.\n"})
}

func TestRestore_InUse(t *testing.T) {
	data, backup := backedUp(t)
	startDaemon(t, "--listen=unix:m.sock", "--http=", "--data="+data)
	inUse := fmt.Sprintf("data directory %s is in use by process %d, which serves unix:m.sock\n", data, os.Getpid())
	wantOutcome(t, memoryd(t, nil, "restore", "--force", backup, "--data="+data),
		outcome{Status: 1, Stderr: "memoryd: restore: " + inUse})
	wantOutcome(t, memoryd(t, nil, "compact", "--data="+data),
		outcome{Status: 1, Stderr: "memoryd: compact store: open store: " + inUse})
}

func TestRestore_Nothing(t *testing.T) {
	dir := t.TempDir()
	data, none := filepath.Join(dir, "data"), filepath.Join(dir, "none")
	wantOutcome(t, memoryd(t, nil, "restore", none, "--data="+data), outcome{
		Status: 1, Stderr: "memoryd: restore: open backup: stat " + none + ": no such file or directory\n",
	})
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got error %v, want it not to be made", err)
	}
}

func TestCompact(t *testing.T) {
	data, _ := backedUp(t)
	got := memoryd(t, nil, "compact", "--data="+data)
	pattern := "^" + regexp.QuoteMeta(data) + ` was compacted\. Bytes before: \d+\. Bytes after: \d+\.\n$`
	if got.Status != 0 || got.Stderr != "" || !regexp.MustCompile(pattern).MatchString(got.Stdout) {
		t.Errorf("got %+v, want %s", got, pattern)
	}
	wantOutcome(t, memoryd(t, nil, "check", "--data="+data), outcome{
		Stdout: data + " is well-formed. Namespaces: 1. Files: 2. Bytes: 12.\n",
	})
}

func TestServe_ScheduledBackup(t *testing.T) {
	t.Chdir(t.TempDir())
	data, backups := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backups")
	log, stop := startDaemonUntil(t, "made scheduled backup", "--listen=unix:m.sock", "--http=", "--data="+data,
		"--backup-dir="+backups, "--backup-every=1h")
	if status := stop(); status != 0 {
		t.Errorf("got status %d, want 0:\n%s", status, log)
	}
	entries, err := os.ReadDir(backups)
	if err != nil || len(entries) != 1 {
		t.Fatalf("got backups %v, %v, want one", entries, err)
	}
	got := memoryd(t, nil, "verify", filepath.Join(backups, entries[0].Name()))
	if got.Status != 0 || !strings.HasSuffix(got.Stdout, " is a whole backup. Namespaces: 0. Files: 0. Bytes: 0.\n") {
		t.Errorf("got %+v, want a whole backup", got)
	}
}

// TestCompact_Damaged compacts a store that is damaged: the file that is there stays the only one.
func TestCompact_Damaged(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	store, err := boltkv.Open(t.Context(), boltkv.Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create := memory.Create{Path: "/memories/f", FileText: "the text of a file"}
	for _, namespace := range []string{"a", "b"} {
		if _, err := m.Do(t.Context(), namespace, create, memory.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(data, "memoryd.db")
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged = bytes.ReplaceAll(damaged, []byte("the text of"), []byte("the test of"))
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	got := memoryd(t, nil, "compact", "--data", data)
	for _, want := range []string{"namespace a: /memories/f is damaged", "namespace b: /memories/f is damaged"} {
		if got.Status != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
		t.Errorf("the file was changed, %v", err)
	}
}
