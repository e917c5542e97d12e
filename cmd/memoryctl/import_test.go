package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// importJSON imports an archive from standard input and returns the report for programs.
func (m *memoryd) importJSON(t *testing.T, archive string, args ...string) (imported, int) {
	t.Helper()
	got := m.run(t, archive, append([]string{"import", "-", "-o", "json"}, args...)...)
	var report imported
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	return report, got.Status
}

func TestImport(t *testing.T) {
	m := startMemoryd(t)
	archive := tarOf(t, special(tar.TypeDir, "memories/"), file("memories/notes.md", "one\ntwo"),
		special(tar.TypeDir, "memories/empty/"), special(tar.TypeDir, "memories/empty/too"),
		special(tar.TypeDir, "memories/full/"), file("memories/full/logo.png", "\x89PNG\x00\xff"),
		file("./no-root.md", ""))
	want := map[string]string{
		"/memories/notes.md": "one\ntwo", "/memories/no-root.md": "", "/memories/full/": "1 files of 6 bytes",
		"/memories/full/logo.png": "\x89PNG\x00\xff", "/memories/empty/": "0 files of 0 bytes",
		"/memories/empty/too/": "0 files of 0 bytes",
	}
	const table = `RESULT       ENTRIES
created      4
overwritten  0
skipped      0
conflict     0
refused      0
`
	for i, source := range []string{
		localFile(t, "a.tar", archive), localFile(t, "a.tgz", gzipped(t, archive)),
		localFile(t, "gzipped in secret.tar", gzipped(t, archive)),
	} {
		namespace := fmt.Sprint("n", i)
		got := m.run(t, "", "import", source, "-n", namespace)
		if diff := cmp.Diff(outcome{exitOK, table, ""}, got); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", source, diff)
		}
		if diff := cmp.Diff(want, m.contents(t, namespace)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
	for i, stdin := range []string{archive, gzipped(t, archive)} {
		namespace := fmt.Sprint("s", i)
		got, status := m.importJSON(t, stdin, "-n", namespace)
		wantReport := imported{
			Namespace: namespace, Complete: true, Overwritten: []string{}, Skipped: []string{}, Conflicts: []string{},
			Refused: []refusal{},
			Created: []string{
				"/memories/notes.md", "/memories/full/logo.png", "/memories/no-root.md", "/memories/empty/too/",
			},
		}
		if diff := cmp.Diff(wantReport, got); diff != "" || status != exitOK {
			t.Errorf("status %d, report (-want +got):\n%s", status, diff)
		}
		if diff := cmp.Diff(want, m.contents(t, namespace)); diff != "" {
			t.Errorf("standard input (-want +got):\n%s", diff)
		}
	}
}

func TestImport_Prefix(t *testing.T) {
	m := startMemoryd(t)
	archive := tarOf(t, file("memories/a", "1"), file("b", "2"), special(tar.TypeDir, "d/"))
	m.mustRun(t, archive, "import", "-", "--prefix", "/memories/old//x/")
	want := map[string]string{
		"/memories/old/": "2 files of 2 bytes", "/memories/old/x/": "2 files of 2 bytes",
		"/memories/old/x/a": "1", "/memories/old/x/b": "2", "/memories/old/x/d/": "0 files of 0 bytes",
	}
	if diff := cmp.Diff(want, m.contents(t, "default")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, prefix := range []string{"old", "/etc", "/memoriesx", "/memories/../x", "/memories/a\\b"} {
		if got := m.run(t, archive, "import", "-", "--prefix", prefix); got.Status != exitUsage {
			t.Errorf("%s: got %+v, want status %d", prefix, got, exitUsage)
		}
	}
}

func TestImport_OnConflict(t *testing.T) {
	archive := tarOf(t, file("memories/new", "new"), file("memories/there", "changed"), file("memories/more", "more"),
		file("memories/too", "changed"))
	counts := func(created, overwritten, skipped, conflicts int) string {
		return fmt.Sprintf("RESULT       ENTRIES\ncreated      %d\noverwritten  %d\nskipped      %d\n"+
			"conflict     %d\nrefused      0\n", created, overwritten, skipped, conflicts)
	}
	const there, too = "memoryctl: \"/memories/there\" is in the memory already\n",
		"memoryctl: \"/memories/too\" is in the memory already\n"
	tests := []struct {
		policy, source string
		want           outcome
		contents       map[string]string
	}{
		{
			"fail", "file",
			outcome{exitErrorResult, counts(0, 0, 0, 2), there + too + "memoryctl: nothing was imported; see --on-conflict\n"},
			map[string]string{"/memories/there": "old", "/memories/too": "old"},
		},
		{
			"fail", "-",
			outcome{
				exitErrorResult, counts(1, 0, 0, 1),
				there + "memoryctl: the import stopped there; what came before is imported\n",
			},
			map[string]string{"/memories/there": "old", "/memories/too": "old", "/memories/new": "new"},
		},
		{
			"skip", "file",
			outcome{exitOK, counts(2, 0, 2, 0), ""},
			map[string]string{
				"/memories/there": "old", "/memories/too": "old", "/memories/new": "new", "/memories/more": "more",
			},
		},
		{
			"overwrite", "-",
			outcome{exitOK, counts(2, 2, 0, 0), ""},
			map[string]string{
				"/memories/there": "changed", "/memories/too": "changed", "/memories/new": "new", "/memories/more": "more",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.policy+" "+test.source, func(t *testing.T) {
			m := startMemoryd(t)
			m.put(t, "default", [2]string{"/memories/there", "old"}, [2]string{"/memories/too", "old"})
			source := test.source
			if source == "file" {
				source = localFile(t, "a.tar", archive)
			}
			got := m.run(t, archive, "import", source, "--on-conflict", test.policy)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.contents, m.contents(t, "default")); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
	m := startMemoryd(t)
	if got := m.run(t, "", "import", "-", "--on-conflict=ask"); got.Status != exitUsage {
		t.Errorf("no such policy: got %+v, want status %d", got, exitUsage)
	}
}

// Another writer is faster between the look at the memory and the change.
func TestImport_Race(t *testing.T) {
	for policy, want := range map[string]imported{
		"fail":      {Conflicts: []string{"/memories/a"}},
		"skip":      {Complete: true, Skipped: []string{"/memories/a"}, Created: []string{"/memories/b"}},
		"overwrite": {Complete: true, Overwritten: []string{"/memories/a"}, Created: []string{"/memories/b"}},
	} {
		t.Run(policy, func(t *testing.T) {
			s := emptyMemory(t)
			s.put = func(header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
				if _, err := io.ReadAll(r); err != nil {
					return nil, err
				}
				if header.GetPath() == "/memories/a" && header.IfRevision != nil {
					return &memoryv1.PutResponse{
						Result: errorText(memoryv1.Reason_REASON_PRECONDITION_FAILED, "Error: changed by someone else"),
					}, nil
				}
				return &memoryv1.PutResponse{Result: text("stored")}, nil
			}
			name := localFile(t, "a.tar", tarOf(t, file("a", "1"), file("b", "2")))
			out := s.run(t, "", "import", name, "--on-conflict", policy, "-o", "json")
			var got imported
			if err := json.Unmarshal([]byte(out.Stdout), &got); err != nil {
				t.Fatal(err)
			}
			want.Namespace = "default"
			for _, list := range []*[]string{&want.Created, &want.Overwritten, &want.Skipped, &want.Conflicts} {
				*list = append([]string{}, *list...)
			}
			want.Refused = []refusal{}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if wantOK := policy != "fail"; (out.Status == exitOK) != wantOK {
				t.Errorf("got %+v", out)
			}
		})
	}
}

// emptyMemory is a service with nothing in it.
func emptyMemory(t *testing.T) *service {
	t.Helper()
	s := startService(t)
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		switch req.(type) {
		case *memoryv1.GetNamespaceRequest:
			return &memoryv1.GetNamespaceResponse{Namespace: acme()}, nil
		case *memoryv1.ListRequest:
			return &memoryv1.ListResponse{Result: &memoryv1.ToolResult{}}, nil
		case *memoryv1.ApplyRequest:
			return &memoryv1.ApplyResponse{Result: errorText(memoryv1.Reason_REASON_READ_ONLY, "Error: read-only")}, nil
		}
		return nil, fmt.Errorf("a call that import does not need: %T", req)
	}
	return s
}

// hostile are entries that are refused, and why.
var hostile = []struct {
	entry  tarEntry
	reason string
}{
	{file("../up", "x"), `its name has a ".." in it`},
	{file("memories/../../etc/passwd", "x"), `its name has a ".." in it`},
	{file("memories/%2e%2e/x", "x"), `its name has a ".." in it`},
	{file("/etc/passwd", "x"), "its name is absolute and not below /memories"},
	{file(`memories\x`, "x"), "its name has a backslash in it"},
	{file("memories/\x1b[2J", "x"), "its name has characters that cannot be seen"},
	{file("memories/\u202egnp", "x"), "its name has characters that cannot be seen"},
	{
		file("memories/"+strings.Repeat("x", 256), "x"),
		"its name is too long: a name may have at most 255 bytes and a whole path at most 1024",
	},
	{file("memories", "x"), "a file cannot be /memories itself"},
	{special(tar.TypeSymlink, "memories/symlink"), "it is a symbolic link"},
	{special(tar.TypeLink, "memories/link"), "it is a hard link"},
	{special(tar.TypeChar, "memories/char"), "it is a device"},
	{special(tar.TypeBlock, "memories/block"), "it is a device"},
	{special(tar.TypeFifo, "memories/fifo"), "it is a named pipe"},
	{special(tar.TypeCont, "memories/cont"), "it is of the type '7', which is no file"},
	{file("memories/large", strings.Repeat("x", 1<<20+1)), "it has 1048577 bytes, and a file may have 1048576"},

	{file("memories/Docs/a", "1"), ""}, // what the following are compared with
	{file("memories/é", "1"), ""},
	{file("memories/Docs/a", "2"), "the archive has it twice"},
	{file("./memories//Docs/./a", "2"), "the archive has it twice"},
	{file("memories/Docs/A", "2"), `"/memories/Docs/A" differs only in case or Unicode form from "/memories/Docs/a", ` +
		"which is in the archive too"},
	{file("memories/docs/b", "2"), `"/memories/docs" differs only in case or Unicode form from "/memories/Docs", ` +
		"which is in the archive too"},
	{special(tar.TypeDir, "memories/DOCS/"), `"/memories/DOCS" differs only in case or Unicode form from ` +
		`"/memories/Docs", which is in the archive too`},
	{file("memories/e\u0301", "2"), "\"/memories/e\u0301\" differs only in case or Unicode form from \"/memories/é\", " +
		"which is in the archive too"},
	{file("memories/Docs/a/below", "2"), `the archive has "/memories/Docs/a" as a file too`},
	{file("memories/Docs", "2"), `the archive has "/memories/Docs" as a directory too`},

	{file("memories/There.md", "2"), `"/memories/There.md" differs only in case or Unicode form from ` +
		`"/memories/there.md", which the memory has`},
	{file("memories/o\u0308/new", "2"), "\"/memories/o\u0308\" differs only in case or Unicode form from " +
		"\"/memories/ö\", which the memory has"},
	{file("memories/ö", "2"), `the memory has "/memories/ö" as a directory`},
	{file("memories/there.md/below", "2"), `the memory has "/memories/there.md" as a file`},
	{special(tar.TypeDir, "memories/there.md"), `the memory has "/memories/there.md" as a file`},
}

// Each of the entries is refused by its name, the others are imported, and nothing is sent of what is refused.
func TestImport_Hostile(t *testing.T) {
	m := startMemoryd(t)
	there := [][2]string{{"/memories/there.md", "old"}, {"/memories/ö/x", "old"}}
	m.put(t, "default", there...)
	var entries []tarEntry
	var want []refusal
	for _, h := range hostile {
		entries = append(entries, h.entry)
		if h.reason != "" {
			want = append(want, refusal{h.entry.header.Name, h.reason})
		}
	}
	entries = append(entries, file("memories/last", "3"))
	archive := tarOf(t, entries...)
	wantCreated := []string{"/memories/Docs/a", "/memories/é", "/memories/last"}

	planned, status := m.importJSON(t, archive, "--dry-run")
	if diff := cmp.Diff(want, planned.Refused); diff != "" || status != exitErrorResult {
		t.Errorf("dry run: status %d, refused (-want +got):\n%s", status, diff)
	}
	for _, policy := range []string{"fail", "overwrite"} {
		got, status := m.importJSON(t, archive, "--on-conflict", policy)
		if diff := cmp.Diff(want, got.Refused); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", policy, diff)
		}
		if diff := cmp.Diff(wantCreated, slices.Concat(got.Created, got.Overwritten)); diff != "" {
			t.Errorf("%s: created (-want +got):\n%s", policy, diff)
		}
		if status != exitErrorResult || !got.Complete {
			t.Errorf("%s: got status %d, complete %t, want %d, true", policy, status, got.Complete, exitErrorResult)
		}
	}
	wantContents := map[string]string{
		"/memories/there.md": "old", "/memories/ö/": "1 files of 3 bytes", "/memories/ö/x": "old",
		"/memories/Docs/": "1 files of 1 bytes", "/memories/Docs/a": "1", "/memories/é": "1", "/memories/last": "3",
	}
	if diff := cmp.Diff(wantContents, m.contents(t, "default")); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestImport_GlobalHeader(t *testing.T) {
	global := func(key, value string) tarEntry {
		return tarEntry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{key: value}}, ""}
	}
	m := startMemoryd(t)
	got, _ := m.importJSON(t, tarOf(t, global("path", "memories/other"), file("memories/a", "1")))
	if diff := cmp.Diff([]string{"/memories/a"}, got.Created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if len(got.Refused) != 1 || got.Refused[0].Reason != "a global header would change the entries after it" {
		t.Errorf("got refused %v, want the global header", got.Refused)
	}
	// As git archive writes it.
	if got, status := m.importJSON(t, tarOf(t, global("comment", "a commit"), file("memories/b", "1"))); status != exitOK {
		t.Errorf("a comment: got status %d, %+v", status, got)
	}
}

// oldSparse is an archive with a sparse file as old GNU tars write it: 8 GB, all of them a hole.
func oldSparse(t *testing.T) string {
	t.Helper()
	header := tar.Header{Typeflag: tar.TypeReg, Name: "memories/sparse", Format: tar.FormatGNU}
	text := []byte(tarOf(t, tarEntry{header, ""}))
	text[156] = tar.TypeGNUSparse
	copy(text[386:], "00000000000\x00") // the one piece of data: at 0, with 0 bytes
	copy(text[398:], "00000000000\x00")
	copy(text[483:], fmt.Sprintf("%011o\x00", 8<<30-1)) // the real size, the most that fits in octal
	copy(text[148:], "        ")
	sum := 0
	for _, b := range text[:512] {
		sum += int(b)
	}
	copy(text[148:], fmt.Sprintf("%06o\x00 ", sum))
	return string(text)
}

func TestImport_Bombs(t *testing.T) {
	m := startMemoryd(t)
	huge := tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: "memories/huge", Size: 10 << 30, Mode: 0o600}, ""}
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&huge.header); err != nil {
		t.Fatal(err)
	}
	got, status := m.importJSON(t, oldSparse(t))
	want := []refusal{{"memories/sparse", "it is a sparse file"}}
	if diff := cmp.Diff(want, got.Refused); diff != "" || status != exitErrorResult || !got.Complete {
		t.Errorf("sparse: status %d, refused (-want +got):\n%s", status, diff)
	}
	// 10 GB that never come: the header alone, and nothing is set aside for what it says.
	got, status = m.importJSON(t, header.String())
	want = []refusal{{"memories/huge", "it has 10737418240 bytes, and a file may have 1048576"}}
	if diff := cmp.Diff(want, got.Refused); diff != "" || status != exitOther || got.Complete {
		t.Errorf("huge: status %d, refused (-want +got):\n%s", status, diff)
	}

	out := m.run(t, "", "import", localFile(t, "bomb.tgz", bomb(t, 1024)))
	if out.Status != exitOther || !strings.Contains(out.Stderr, errExpands.Error()) {
		t.Errorf("zeros: got %+v, want status %d and %v", out, exitOther, errExpands)
	}
	if got := m.contents(t, "default"); len(got) > 0 {
		t.Errorf("got %v in the memory, want nothing", got)
	}
}

func TestImport_TooManyNames(t *testing.T) {
	plan := &importPlan{
		prefix: rootPath, maxFileBytes: 1, memory: newMemoryNames(nil), claims: make(map[string]*claim),
	}
	// Each of these needs one name for itself and 100 for the directories above it.
	var err error
	n := 0
	for ; err == nil && n < maxPlannedNames; n++ {
		_, err = plan.entry(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint("d", n, strings.Repeat("/d", 100))})
	}
	if !errors.Is(err, errTooManyNames) || len(plan.claims) > maxPlannedNames {
		t.Errorf("got %v after %d entries with %d names, want %v", err, n, len(plan.claims), errTooManyNames)
	}
}

func TestImport_CutOff(t *testing.T) {
	m := startMemoryd(t)
	whole := tarOf(t, file("memories/a", "1"), file("memories/b", "2"), file("memories/c", "3"))
	cut := whole[:2*1024+512] // within the third

	got := m.run(t, "", "import", localFile(t, "cut.tar", cut))
	if got.Status != exitOther || got.Stdout != "" || !strings.HasSuffix(got.Stderr, ": the archive is cut off\n") {
		t.Errorf("file: got %+v", got)
	}
	if got := m.contents(t, "default"); len(got) > 0 {
		t.Errorf("file: got %v in the memory, want nothing", got)
	}
	got = m.run(t, "", "import", "-")
	if !strings.HasSuffix(got.Stderr, "memoryctl: read standard input: the archive is cut off\n") ||
		strings.Contains(got.Stderr, "as far as") {
		t.Errorf("nothing at all: got %+v", got)
	}
	got = m.run(t, cut, "import", "-")
	want := outcome{
		exitOther, "RESULT       ENTRIES\ncreated      2\noverwritten  0\nskipped      0\nconflict     0\nrefused      0\n",
		"memoryctl: the import is not complete: it came as far as \"memories/c\"\n" +
			"memoryctl: read standard input: the archive is cut off\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("standard input (-want +got):\n%s", diff)
	}
	wantContents := map[string]string{"/memories/a": "1", "/memories/b": "2"}
	if diff := cmp.Diff(wantContents, m.contents(t, "default")); diff != "" {
		t.Errorf("standard input (-want +got):\n%s", diff)
	}
}

func TestImport_DryRun(t *testing.T) {
	m := startMemoryd(t)
	m.put(t, "default", [2]string{"/memories/there", "old"})
	before := m.mustRun(t, "", "namespace", "show", "default")
	archive := tarOf(t, file("memories/new", "1"), file("memories/there", "2"), file("../\x1b[2J", "3"),
		special(tar.TypeDir, "memories/empty/"))
	const refused = "memoryctl: refused \"../\\x1b[2J\": its name has characters that cannot be seen\n"
	for policy, want := range map[string]outcome{
		"fail": {
			exitErrorResult, "WOULD BE  ENTRY\ncreated   /memories/new\nconflict  /memories/there\n" +
				"refused   \"../\\x1b[2J\"\ncreated   /memories/empty/\n",
			"memoryctl: \"/memories/there\" is in the memory already\n" + refused,
		},
		"overwrite": {
			exitErrorResult, "WOULD BE     ENTRY\ncreated      /memories/new\noverwritten  /memories/there\n" +
				"refused      \"../\\x1b[2J\"\ncreated      /memories/empty/\n", refused,
		},
	} {
		for _, source := range []string{"-", localFile(t, "a.tar", archive)} {
			got := m.run(t, archive, "import", source, "--dry-run", "--on-conflict", policy)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", policy, diff)
			}
		}
	}
	if after := m.mustRun(t, "", "namespace", "show", "default"); after != before {
		t.Errorf("the memory was changed:\n%s%s", before, after)
	}
	if got := m.run(t, tarOf(t, file("a", "")), "import", "-", "--dry-run"); got.Status != exitOK {
		t.Errorf("nothing wrong: got %+v, want status %d", got, exitOK)
	}
}

// What memoryd says is reported by name, and the rest goes on.
func TestImport_RefusedByService(t *testing.T) {
	s := emptyMemory(t)
	s.put = func(header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
		if _, err := io.ReadAll(r); err != nil {
			return nil, err
		}
		if header.GetPath() == "/memories/a" {
			return &memoryv1.PutResponse{Result: errorText(memoryv1.Reason_REASON_FILE_QUOTA, "Error: it is full")}, nil
		}
		return &memoryv1.PutResponse{Result: text("stored")}, nil
	}
	got := s.run(t, tarOf(t, file("a", "1"), file("b", "2"), special(tar.TypeDir, "d")), "import", "-")
	want := outcome{
		exitErrorResult,
		"RESULT       ENTRIES\ncreated      1\noverwritten  0\nskipped      0\nconflict     0\nrefused      2\n",
		"memoryctl: refused \"a\": it is full\nmemoryctl: refused \"/memories/d/\": read-only\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImport_ServiceFails(t *testing.T) {
	s := emptyMemory(t)
	s.put = func(header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
		if _, err := io.ReadAll(r); err != nil {
			return nil, err
		}
		if header.GetPath() == "/memories/b" {
			return nil, statusError(codes.ResourceExhausted, "STORE_FULL", "the disk is full", true)
		}
		return &memoryv1.PutResponse{Result: text("stored")}, nil
	}
	got := s.run(t, tarOf(t, file("a", "1"), file("b", "2"), file("c", "3")), "import", "-")
	want := outcome{
		exitOther,
		"RESULT       ENTRIES\ncreated      1\noverwritten  0\nskipped      0\nconflict     0\nrefused      0\n",
		"memoryctl: the import is not complete: it came as far as \"b\"\n" +
			"memoryctl: the disk is full (RESOURCE_EXHAUSTED, STORE_FULL)\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImport_Interrupted(t *testing.T) {
	// The second entry is larger than what is read of the archive at a time, so that its end is asked for when the first
	// is stored.
	archive := tarOf(t, file("a", "1"), file("b", strings.Repeat("2", 4*archiveBuffer)), file("c", "3"))
	const table = "RESULT       ENTRIES\ncreated      1\noverwritten  0\nskipped      0\nconflict     0\n" +
		"refused      0\n"
	const asFar = "memoryctl: the import is not complete: it came as far as \"b\"\n"
	for _, test := range []struct {
		name string
		sent int // of the archive, before the signal
		want outcome
	}{
		{"between two changes", 2 * archiveBuffer, outcome{exitOther, table, asFar + "memoryctl: interrupted\n"}},
		{"during a change", len(archive), outcome{
			exitOther, table,
			asFar + "memoryctl: interrupted; the change may or may not have been made\n",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			s := emptyMemory(t)
			s.put = func(header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
				_, err := io.Copy(io.Discard, r)
				if header.GetPath() == "/memories/b" {
					interrupt()
					<-t.Context().Done() // there is never an answer
				}
				return &memoryv1.PutResponse{Result: text("stored")}, err
			}
			rest := readerFunc(func([]byte) (int, error) {
				if test.sent < len(archive) {
					interrupt()
				}
				return 0, io.EOF
			})
			var stdout, stderr bytes.Buffer
			code := Run(ctx, []string{"--addr", s.addr, "import", "-"},
				io.MultiReader(strings.NewReader(archive[:test.sent]), rest), &stdout, &stderr)
			if diff := cmp.Diff(test.want, outcome{code, stdout.String(), stderr.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestImport_Usage(t *testing.T) {
	s := emptyMemory(t)
	if got := s.runOnTerminal(t, "", "import", "-"); got.Status != exitUsage {
		t.Errorf("from a terminal: got %+v, want status %d", got, exitUsage)
	}
	for _, name := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if got := s.run(t, "", "import", name); got.Status != exitUsage || got.Stdout != "" {
			t.Errorf("%s: got %+v, want status %d", name, got, exitUsage)
		}
	}
}

func TestImport_Progress(t *testing.T) {
	s := emptyMemory(t)
	got := s.runOnTerminal(t, "", "import", localFile(t, "a.tar", tarOf(t)))
	if got.Status != exitOK || !strings.Contains(got.Stderr, "Importing") || strings.Contains(got.Stdout, "Importing") {
		t.Errorf("got %+v, want a progress bar on standard error", got)
	}
}

// foreignTree makes a local directory with what foreign programs are to pack.
func foreignTree(t *testing.T) (dir string, want map[string]string) {
	t.Helper()
	dir = t.TempDir()
	long := strings.Repeat("a long name ", 12) + "é"
	for name, content := range map[string]string{
		"docs/notes.md": "one\ntwo", "docs/" + long + "/" + long: "long", "docs/raw": "\x00\xff",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "docs", "empty"), 0o700),
		os.Symlink("notes.md", filepath.Join(dir, "docs", "symlink")),
		os.WriteFile(filepath.Join(dir, "docs", "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "docs", "sparse"), 10<<30)); err != nil {
		t.Fatal(err)
	}
	return dir, map[string]string{
		"/memories/docs/": "3 files of 13 bytes", "/memories/docs/notes.md": "one\ntwo", "/memories/docs/raw": "\x00\xff",
		"/memories/docs/empty/": "0 files of 0 bytes", "/memories/docs/" + long + "/": "1 files of 4 bytes",
		"/memories/docs/" + long + "/" + long: "long",
	}
}

func TestImport_Foreign(t *testing.T) {
	const python = `import sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=getattr(tarfile, sys.argv[1])) as t:
    t.add("docs", filter=lambda i: None if i.name == "docs/sparse" else i)`
	for _, command := range [][]string{
		{"tar", "-cS", "docs"},
		{"tar", "-czS", "--format=gnu", "docs"},
		{"tar", "-cS", "--format=posix", "docs"},
		{"tar", "-cS", "--format=posix", "--sparse-version=0.1", "docs"},
		{"python3", "-c", python, "PAX_FORMAT"},
		{"python3", "-c", python, "GNU_FORMAT"},
	} {
		t.Run(strings.Join(slices.DeleteFunc(slices.Clone(command), func(s string) bool { return s == python }), " "),
			func(t *testing.T) {
				program, err := exec.LookPath(command[0])
				if err != nil {
					t.Skip("there is no " + command[0])
				}
				version, err := exec.CommandContext(t.Context(), program, "--version").Output()
				if err != nil || command[0] == "tar" && !strings.Contains(string(version), "GNU") {
					t.Skip("this is another " + command[0])
				}
				dir, want := foreignTree(t)
				cmd := exec.CommandContext(t.Context(), program, command[1:]...)
				cmd.Dir = dir
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				archive, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, stderr.String())
				}
				m := startMemoryd(t)
				got, status := m.importJSON(t, string(archive))
				wantRefused := map[string]string{
					"docs/symlink": "it is a symbolic link", "docs/sparse": "it is a sparse file",
				}
				if command[0] == "python3" {
					delete(wantRefused, "docs/sparse")
				}
				gotRefused := map[string]string{}
				for _, r := range got.Refused {
					gotRefused[r.Name] = r.Reason
				}
				if diff := cmp.Diff(wantRefused, gotRefused); diff != "" || status != exitErrorResult {
					t.Errorf("status %d, refused (-want +got):\n%s", status, diff)
				}
				if diff := cmp.Diff(want, m.contents(t, "default")); diff != "" {
					t.Errorf("contents (-want +got):\n%s", diff)
				}
			})
	}
}

// segments are names that are told apart by everything but case and Unicode form.
var segments = rapid.OneOf(
	rapid.SampledFrom([]string{
		"memories", "a", "b", "B", "a-b", ".hidden", "node_modules", "é", "e\u0301", "É", "ß", "100%", "%20", "...", "한",
		"a b", "日本", "\u0646\u200c\u06cc", `"`, "<&>", strings.Repeat("long", 60),
	}),
	rapid.StringN(1, 8, 60),
)

var contents = rapid.OneOf(
	rapid.SliceOfN(rapid.Byte(), 0, 700),
	rapid.SampledFrom([][]byte{{}, bytes.Repeat([]byte{0}, 100_000)}),
)

// Whatever tree there is, export and import make the same one in another namespace.
func TestRoundTrip(t *testing.T) {
	m := startMemoryd(t)
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		from, to := fmt.Sprint("from", round), fmt.Sprint("to", round)
		taken := map[string]string{} // what the service keeps apart and an archive must not
		for range rapid.IntRange(0, 12).Draw(rt, "entries") {
			names := rapid.SliceOfN(segments, 1, 4).Draw(rt, "names")
			path := rootPath + "/" + strings.Join(names, "/")
			if refused := !takes(taken, path); refused {
				continue
			}
			content := contents.Draw(rt, "content")
			resp, err := m.client.Put(t.Context(), &memoryv1.PutHeader{Namespace: from, Path: path}, bytes.NewReader(content))
			if err != nil {
				rt.Fatal(err)
			}
			if resp.GetResult().GetIsError() || !rapid.Bool().Draw(rt, "empty directory") {
				continue // a bad name, or a parent that is a file, is one entry less
			}
			if _, err := m.client.Delete(t.Context(), &memoryv1.DeleteRequest{Namespace: from, Path: path}); err != nil {
				rt.Fatal(err)
			}
		}
		name := filepath.Join(dir, rapid.SampledFrom([]string{"a.tar", "a.tgz"}).Draw(rt, "archive"))
		if got := m.run(t, "", "export", name, "--force", "-n", from); got.Status != exitOK {
			rt.Fatalf("export: %+v", got)
		}
		if got := m.run(t, "", "import", name, "-n", to); got.Status != exitOK || got.Stderr != "" {
			rt.Fatalf("import: %+v", got)
		}
		if diff := cmp.Diff(m.contents(t, from), m.contents(t, to)); diff != "" {
			rt.Errorf("(-exported +imported):\n%s", diff)
		}
	})
}

// takes tells whether no part of a path differs from one that is taken in case or Unicode form alone, and takes it.
func takes(taken map[string]string, path string) bool {
	path, refusal := memoryPath(rootPath, path)
	if refusal != "" || path == rootPath {
		return false
	}
	added := map[string]string{}
	for cut := path; cut != rootPath; cut = parent(cut) {
		if other, ok := taken[foldName(cut)]; ok && other != cut {
			return false
		}
		added[foldName(cut)] = cut
	}
	maps.Copy(taken, added)
	return true
}

// The rules of names that import knows are those of the service.
func TestMemoryPath_AsTheService(t *testing.T) {
	m := startMemoryd(t)
	pieces := rapid.SampledFrom([]string{
		"a", "/", ".", "..", `\`, "%", "2e", "%2e", "%25", "%2f", "%5C", "\x00", "\n", "\u200c", "\u200b", "\u2028", "é",
		"e\u0301", "\u0958", strings.Repeat("x", 250), strings.Repeat("y/", 300),
	})
	rapid.Check(t, func(rt *rapid.T) {
		path := rootPath + "/" + strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(rt, "pieces"), "")
		_, refusal := memoryPath(rootPath, path)
		resp, err := m.client.View(t.Context(), &memoryv1.ViewRequest{Path: path})
		if err != nil {
			rt.Fatal(err)
		}
		accepted := !resp.GetResult().GetIsError() ||
			resp.GetResult().GetReason() == memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND
		if accepted != (refusal == "") {
			rt.Errorf("%q: import says %q, the service %v", path, refusal, resp.GetResult())
		}
	})
}
