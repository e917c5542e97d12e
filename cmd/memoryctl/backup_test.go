package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// backupService sends one backup, cut off where cut is not 0.
type backupService struct {
	memoryv1.UnimplementedAdminServiceServer
	content string
	cut     int
	err     error
	req     *memoryv1.BackupRequest
}

func (s *backupService) whole() []byte {
	sum := sha256.Sum256([]byte(s.content))
	return append([]byte(s.content), sum[:]...)
}

func (s *backupService) Backup(
	req *memoryv1.BackupRequest, stream grpc.ServerStreamingServer[memoryv1.BackupResponse],
) error {
	s.req = proto.CloneOf(req)
	data := s.whole()
	header := &memoryv1.BackupResponse_Header{Header: &memoryv1.BackupHeader{SizeBytes: int64(len(data))}}
	if err := stream.Send(&memoryv1.BackupResponse{Part: header}); err != nil {
		return err
	}
	part := &memoryv1.BackupResponse_Chunk{Chunk: data[:len(data)-s.cut]}
	if err := stream.Send(&memoryv1.BackupResponse{Part: part}); err != nil {
		return err
	}
	return s.err
}

// startBackupService serves s and returns its address.
func startBackupService(t *testing.T, s *backupService) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	memoryv1.RegisterAdminServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// wantFiles checks what a directory holds: names and contents.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBackup(t *testing.T) {
	s := &backupService{content: strings.Repeat("0123456789", 200)}
	addr := startBackupService(t, s)
	dir := t.TempDir()
	name := filepath.Join(dir, "b")
	backup := func(args ...string) outcome {
		return run(t, strings.NewReader(""), append([]string{"--addr", addr, "backup"}, args...)...)
	}
	want := outcome{exitOK, fmt.Sprintf("Wrote %s (2.0K)\n", name), ""}
	if diff := cmp.Diff(want, backup(name, "--rate", "10MB/s")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantFiles(t, dir, map[string]string{"b": string(s.whole())})
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	if got, want := s.req.GetMaxBytesPerSecond(), int64(10_000_000); got != want {
		t.Errorf("asked for %d bytes a second, want %d", got, want)
	}

	s.content = "other"
	if got := backup(name); got.Status != exitUsage || !strings.Contains(got.Stderr, "--force") {
		t.Errorf("over a file: got %+v, want status %d and --force", got, exitUsage)
	}
	want = outcome{exitOK, fmt.Sprintf(`{"bytes":37,"file":%q}`+"\n", name), ""}
	if diff := cmp.Diff(want, backup(name, "--force", "-o", "json")); diff != "" {
		t.Errorf("with --force (-want +got):\n%s", diff)
	}
	wantFiles(t, dir, map[string]string{"b": string(s.whole())})

	if diff := cmp.Diff(outcome{exitOK, string(s.whole()), ""}, backup("-")); diff != "" {
		t.Errorf("to standard output (-want +got):\n%s", diff)
	}
}

// TestBackup_Denied names the rights that are needed, on all namespaces: a backup is of all.
func TestBackup_Denied(t *testing.T) {
	addr := startBackupService(t, &backupService{
		content: "content", err: statusError(codes.PermissionDenied, "NOT_PERMITTED", "no", true),
	})
	got := run(t, strings.NewReader(""), "--addr", addr, "backup", "-")
	if want := "no: ask whoever runs memoryd for a right in all namespaces: admin and read on ** (PERMISSION_DENIED, NOT_PERMITTED)\n"; got.Status != exitOther ||
		!strings.HasSuffix(got.Stderr, want) {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestBackup_Fails(t *testing.T) {
	s := &backupService{content: "content", cut: 1}
	addr := startBackupService(t, s)
	dir := t.TempDir()
	name := filepath.Join(dir, "b")
	for _, test := range []struct {
		name string
		err  error
		args []string
		want outcome
	}{
		{"cut off", nil, []string{name}, outcome{
			exitOther, "", "memoryctl: the backup did not come whole: 38 bytes of 39\n",
		}},
		{"full disk", statusError(codes.ResourceExhausted, "STORE_FULL", "the store is full", true), []string{name}, outcome{
			exitOther, "", "memoryctl: the store is full (RESOURCE_EXHAUSTED, STORE_FULL)\n",
		}},
		{"cut off on standard output", nil, []string{"-"}, outcome{
			exitOther, string(s.whole()[:38]), "memoryctl: the backup did not come whole: 38 bytes of 39\n",
		}},
		{"rate", nil, []string{name, "--rate=fast"}, outcome{exitUsage, "", `memoryctl: --rate "fast": want a whole number ` +
			"with B, KB, MB, GB, KiB, MiB or GiB, for example 10MB/s\nRun 'memoryctl backup --help' for usage.\n"}},
		{"json on standard output", nil, []string{"-", "-o", "json"}, outcome{exitUsage, "", "memoryctl: backup to " +
			"standard output has no -o json\nRun 'memoryctl backup --help' for usage.\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.err = test.err
			got := run(t, strings.NewReader(""), append([]string{"--addr", addr, "backup"}, test.args...)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantFiles(t, dir, map[string]string{})
		})
	}
}

// A backup that fails takes nothing away.
func TestBackup_FailsOverFile(t *testing.T) {
	addr := startBackupService(t, &backupService{content: "content", cut: 1})
	dir := t.TempDir()
	name := filepath.Join(dir, "b")
	if err := os.WriteFile(name, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, strings.NewReader(""), "--addr", addr, "backup", "--force", name)
	if got.Status != exitOther {
		t.Errorf("got %+v, want status %d", got, exitOther)
	}
	wantFiles(t, dir, map[string]string{"b": "older"})
}

func TestBackup_ProgressOnTerminal(t *testing.T) {
	addr := startBackupService(t, &backupService{content: strings.Repeat("0123456789", 200)})
	for _, terminal := range []bool{true, false} {
		var stdout, stderr bytes.Buffer
		c := &cli{
			stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
			isTerminal: func(stream any) bool { return terminal && stream == any(&stderr) },
		}
		status := c.run(context.Background(), []string{"--addr", addr, "backup", filepath.Join(t.TempDir(), "b")})
		if got := strings.Contains(stderr.String(), "Backup"); status != exitOK || got != terminal {
			t.Errorf("standard error a terminal: %t: got status %d and %q", terminal, status, stderr.String())
		}
	}
	var stdout bytes.Buffer
	c := &cli{stdout: &stdout, stderr: &bytes.Buffer{}, isTerminal: func(any) bool { return true }}
	if got := c.run(t.Context(), []string{"--addr", addr, "backup", "-"}); got != exitUsage || stdout.Len() > 0 {
		t.Errorf("to a terminal: got status %d and %d bytes, want status %d", got, stdout.Len(), exitUsage)
	}
}

func TestParseRate(t *testing.T) {
	for rate, want := range map[string]int64{
		"": 0, "1B": 1, "10MB/s": 10_000_000, "64KiB": 65_536, "64KB/s": 64_000, "2GiB/s": 2 << 30, "2MiB": 2 << 20,
		"999999999GB/s": 999_999_999_000_000_000,
	} {
		if got, err := parseRate(rate); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", rate, got, err, want)
		}
	}
	for _, rate := range []string{"0MB", "-1MB", "10", "10 MB", "10mb", "1.5MB", "10MB/m", "10MBit", "9999999999GB"} {
		if got, err := parseRate(rate); err == nil {
			t.Errorf("%q: got %d, want an error", rate, got)
		}
	}
}
