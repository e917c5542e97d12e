package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestExport(t *testing.T) {
	m := startMemoryd(t)
	m.put(t, "default", [2]string{"/memories/notes.md", "one\ntwo"}, [2]string{"/memories/empty/", ""},
		[2]string{"/memories/.hidden/logo.png", "\x89PNG\x00\xff"}, [2]string{"/memories/é ü/a.md", ""})
	want := map[string]string{
		"memories/": "", "memories/notes.md": "one\ntwo", "memories/empty/": "", "memories/.hidden/": "",
		"memories/.hidden/logo.png": "\x89PNG\x00\xff", "memories/é ü/": "", "memories/é ü/a.md": "",
	}
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "a.tar"), filepath.Join(dir, "a.tgz")
	for _, name := range []string{plain, packed} {
		got := m.run(t, "", "export", name)
		wantOut := outcome{exitOK, "Exported 3 files and 3 directories (13B) of default to " + name + ", revision 5\n", ""}
		if diff := cmp.Diff(wantOut, got); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
		text := readFile(t, name)
		if diff := cmp.Diff(want, entriesOf(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if isPacked := strings.HasPrefix(text, "\x1f\x8b"); isPacked != (name == packed) {
			t.Errorf("%s: gzipped is %t", name, isPacked)
		}
	}
	stdout := m.mustRun(t, "", "export", "-")
	if stdout != readFile(t, plain) {
		t.Error("the same memory made another archive on standard output")
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("got files %v, %v, want the two archives alone", names, err)
	}
	info, err := os.Stat(plain)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}

	reader := tar.NewReader(strings.NewReader(stdout))
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		mode := int64(0o600)
		if h.Typeflag == tar.TypeDir {
			mode = 0o700
		}
		if h.Mode != mode || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s: got mode %o, owner %d %q, group %d %q", h.Name, h.Mode, h.Uid, h.Uname, h.Gid, h.Gname)
		}
		if age := time.Since(h.ModTime); age < -time.Minute || age > time.Hour {
			t.Errorf("%s: got the time %v, want about now", h.Name, h.ModTime)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExport_JSON(t *testing.T) {
	m := startMemoryd(t)
	m.put(t, "acme", [2]string{"/memories/a/b", "text"})
	name := filepath.Join(t.TempDir(), "x.tar")
	var got exported
	if err := json.Unmarshal([]byte(m.mustRun(t, "", "export", name, "-n", "acme", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	want := exported{
		Namespace: "acme", File: name, Revision: 1, Files: 1, Directories: 1, Bytes: 4,
		Changed: []string{}, Gone: []string{}, Damaged: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExport_NeverWritten(t *testing.T) {
	m := startMemoryd(t)
	got := m.run(t, "", "export", "-")
	if want := "memoryctl: nothing was ever written to namespace default; the archive is empty\n"; got.Stderr != want {
		t.Errorf("got %q, want %q", got.Stderr, want)
	}
	if diff := cmp.Diff(map[string]string{"memories/": ""}, entriesOf(t, got.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExport_FileIsThere(t *testing.T) {
	m := startMemoryd(t)
	m.put(t, "default", [2]string{"/memories/a", "text"})
	there := localFile(t, "there.tar", "precious")
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(there, link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, want string }{
		{there, there + " is there already; --force replaces it"},
		{dir + " --force", dir + " is there and is no regular file"},
		{pipe + " --force", pipe + " is there and is no regular file"},
		{link + " --force", link + " is there and is no regular file"},
	} {
		got := m.run(t, "", append([]string{"export"}, strings.Fields(test.args)...)...)
		want := outcome{exitUsage, "", "memoryctl: " + test.want + "\nRun 'memoryctl export --help' for usage.\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
	if got := readFile(t, there); got != "precious" {
		t.Errorf("the file was changed: %q", got)
	}
	m.mustRun(t, "", "export", there, "--force")
	if got := entriesOf(t, readFile(t, there))["memories/a"]; got != "text" {
		t.Errorf("with --force: got %q, want the archive", got)
	}
}

func TestExport_Usage(t *testing.T) {
	s := startService(t)
	got := s.runOnTerminal(t, "", "export", "-")
	if got.Status != exitUsage || !strings.Contains(got.Stderr, "nothing for a terminal") {
		t.Errorf("on a terminal: got %+v, want status %d", got, exitUsage)
	}
	if got := s.run(t, "", "export", "-", "-o", "json"); got.Status != exitUsage {
		t.Errorf("with JSON: got %+v, want status %d", got, exitUsage)
	}
	got = s.run(t, "", "export", filepath.Join(t.TempDir(), "none", "a.tar"))
	if got.Status != exitOther || !strings.Contains(got.Stderr, "create file") {
		t.Errorf("no directory: got %+v, want status %d", got, exitOther)
	}
}

// moving is a service with two files of a memory that changes as it is read.
func moving(t *testing.T, revision func(read int) int64, get func(path string) (string, memoryv1.Reason)) *service {
	s := startService(t)
	read := 0
	next := func() int64 { read++; return revision(read) }
	entry := func(path, content string) *memoryv1.Entry {
		e := fileEntry(path, int64(len(content)))
		e.Sha256 = sha256Hex(content)
		return e
	}
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		if _, ok := req.(*memoryv1.ViewRequest); ok {
			root := dirEntry("/memories", 6)
			return &memoryv1.ViewResponse{Result: text(""), Revision: next(), Entry: root}, nil
		}
		return &memoryv1.ListResponse{
			Result: &memoryv1.ToolResult{}, Revision: next(),
			Entries: []*memoryv1.Entry{entry("/memories/a", "old"), entry("/memories/b", "old")},
		}, nil
	}
	s.get = func(req *memoryv1.GetRequest) (*memoryv1.GetHeader, []string, error) {
		content, reason := get(req.GetPath())
		if reason != 0 {
			return &memoryv1.GetHeader{Result: errorText(reason, "no such path")}, nil, nil
		}
		header := &memoryv1.GetHeader{
			Result: &memoryv1.ToolResult{}, Revision: next(), Entry: entry(req.GetPath(), content),
		}
		return header, []string{content}, nil
	}
	return s
}

func unchanged(string) (string, memoryv1.Reason) { return "old", 0 }

func TestExport_ChangedMeanwhile(t *testing.T) {
	always := func(read int) int64 { return int64(read) }
	// A try is at least View and List; the first sees a change at List.
	once := func(read int) int64 { return min(int64(read), 2) }
	quiet := func(int) int64 { return 7 }
	bChanges := func(path string) (string, memoryv1.Reason) {
		if path == "/memories/b" {
			return "newer", 0
		}
		return "old", 0
	}
	bGoes := func(path string) (string, memoryv1.Reason) {
		if path == "/memories/b" {
			return "", memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND
		}
		return "old", 0
	}
	const mixed = "memoryctl: the memory was changed during the export: the archive mixes old and new, and may lack " +
		"files that were renamed\n"
	const gaveUp = "memoryctl: the memory was changed during each of 3 exports, and nothing was written; " +
		"--allow-changes takes an archive that mixes old and new\n"
	old := map[string]string{"memories/": "", "memories/a": "old", "memories/b": "old"}
	tests := []struct {
		name     string
		revision func(int) int64
		get      func(string) (string, memoryv1.Reason)
		flag     string
		toFile   outcome // without what is on standard output
		toStdout outcome
		want     map[string]string // in the archive on standard output
	}{
		{"never", quiet, unchanged, "--allow-changes=false", outcome{}, outcome{}, old},
		{
			"always", always, unchanged, "--allow-changes=false",
			outcome{exitErrorResult, "", gaveUp},
			outcome{exitErrorResult, "", mixed},
			old,
		},
		{"once", once, unchanged, "--allow-changes=false", outcome{}, outcome{exitErrorResult, "", mixed}, old},
		{
			"a file changes", always, bChanges, "--allow-changes",
			outcome{exitOK, "", mixed + "memoryctl: changed meanwhile: \"/memories/b\"\n"},
			outcome{exitOK, "", mixed + "memoryctl: changed meanwhile: \"/memories/b\"\n"},
			map[string]string{"memories/": "", "memories/a": "old", "memories/b": "newer"},
		},
		{
			"a file goes", quiet, bGoes, "--allow-changes",
			outcome{exitOK, "", mixed + "memoryctl: gone meanwhile: \"/memories/b\"\n"},
			outcome{exitOK, "", mixed + "memoryctl: gone meanwhile: \"/memories/b\"\n"},
			map[string]string{"memories/": "", "memories/a": "old"},
		},
		{
			"a file goes, not allowed", quiet, bGoes, "--allow-changes=false",
			outcome{exitErrorResult, "", gaveUp},
			outcome{exitErrorResult, "", mixed + "memoryctl: gone meanwhile: \"/memories/b\"\n"},
			map[string]string{"memories/": "", "memories/a": "old"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "a.tar")
			got := moving(t, test.revision, test.get).run(t, "", "export", name, test.flag)
			got.Stdout = ""
			if diff := cmp.Diff(test.toFile, got); diff != "" {
				t.Errorf("to a file (-want +got):\n%s", diff)
			}
			names, err := os.ReadDir(dir)
			if wrote := len(names) == 1; err != nil || wrote != (test.toFile.Status == exitOK) {
				t.Errorf("got files %v, %v with status %d", names, err, test.toFile.Status)
			}
			if test.toFile.Status == exitOK {
				if diff := cmp.Diff(test.want, entriesOf(t, readFile(t, name))); diff != "" {
					t.Errorf("file (-want +got):\n%s", diff)
				}
			}

			got = moving(t, test.revision, test.get).run(t, "", "export", "-", test.flag)
			if diff := cmp.Diff(test.want, entriesOf(t, got.Stdout)); diff != "" {
				t.Errorf("standard output (-want +got):\n%s", diff)
			}
			got.Stdout = ""
			if diff := cmp.Diff(test.toStdout, got); diff != "" {
				t.Errorf("to standard output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExport_WrongBytes(t *testing.T) {
	s := moving(t, func(int) int64 { return 1 }, unchanged)
	get := s.get
	s.get = func(req *memoryv1.GetRequest) (*memoryv1.GetHeader, []string, error) {
		header, _, err := get(req)
		return header, []string{"odd"}, err
	}
	dir := t.TempDir()
	got := s.run(t, "", "export", filepath.Join(dir, "a.tar"))
	if got.Status != exitOther || !strings.Contains(got.Stderr, "read /memories/a: its bytes have the SHA-256") {
		t.Errorf("got %+v, want status %d and the file", got, exitOther)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("got files %v, %v, want none", names, err)
	}
}

// A file that is damaged is named, and the others are exported.
func TestExport_Damaged(t *testing.T) {
	s := moving(t, func(int) int64 { return 1 }, unchanged)
	get := s.get
	s.get = func(req *memoryv1.GetRequest) (*memoryv1.GetHeader, []string, error) {
		if req.GetPath() == "/memories/a" {
			return nil, nil, statusError(codes.DataLoss, "STORE_CORRUPT", "damaged", true)
		}
		return get(req)
	}
	name := filepath.Join(t.TempDir(), "a.tar")
	got := s.run(t, "", "export", name)
	want := "memoryctl: damaged, and not in the archive: \"/memories/a\"\n"
	if got.Status != exitErrorResult || got.Stderr != want {
		t.Errorf("got %+v, want status %d and %q", got, exitErrorResult, want)
	}
	archive, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(archive, []byte("memories/a\x00")) || !bytes.Contains(archive, []byte("memories/b\x00")) {
		t.Error("the archive has the damaged file, or lacks another")
	}
}

func TestExport_OutputFails(t *testing.T) {
	s := moving(t, func(int) int64 { return 1 }, unchanged)
	var stderr strings.Builder
	code := Run(t.Context(), []string{"--addr", s.addr, "export", "-"}, strings.NewReader(""), errorWriter{errBroken},
		&stderr)
	if want := "memoryctl: write archive: broken\n"; code != exitOther || stderr.String() != want {
		t.Errorf("got %d, %q, want %d, %q", code, stderr.String(), exitOther, want)
	}
}

func TestExport_Progress(t *testing.T) {
	s := moving(t, func(int) int64 { return 1 }, unchanged)
	got := s.runOnTerminal(t, "", "export", filepath.Join(t.TempDir(), "a.tar"))
	if got.Status != exitOK || !strings.Contains(got.Stderr, "Exporting") || strings.Contains(got.Stdout, "Exporting") {
		t.Errorf("got %+v, want a progress bar on standard error", got)
	}
}

// What export writes is what GNU tar unpacks.
func TestExport_GNUTar(t *testing.T) {
	program, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("there is no tar")
	}
	m := startMemoryd(t)
	deep := "/memories/" + strings.Repeat("deep directory/", 20) + "é.md"
	m.put(t, "default", [2]string{"/memories/empty/", ""}, [2]string{deep, "text"})
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "-x", "-C", dir)
	cmd.Stdin = strings.NewReader(m.mustRun(t, "", "export", "-"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if got := readFile(t, filepath.Join(dir, deep)); got != "text" {
		t.Errorf("got %q, want %q", got, "text")
	}
	if info, err := os.Stat(filepath.Join(dir, "memories", "empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty directory: %v", err)
	}
}
