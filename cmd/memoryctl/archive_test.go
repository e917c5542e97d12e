package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// memoryd is the service itself, whose store is checked when the test ends.
type memoryd struct {
	addr   string
	client *client.Client
}

func startMemoryd(t *testing.T) *memoryd {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := memkv.New()
	t.Cleanup(func() {
		m, err := memory.New(store, memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		names, err := store.Scopes(context.Background(), "", 1<<20)
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if err := m.Check(context.Background(), name); err != nil {
				t.Errorf("check %s: %v", name, err)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	s := servertest.New(t, servertest.WithStore(store), func(cfg *server.Config) {
		cfg.Listeners = append(cfg.Listeners, listener)
	})
	return &memoryd{listener.Addr().String(), s.Client}
}

func (m *memoryd) run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return run(t, strings.NewReader(stdin), append([]string{"--addr", m.addr}, args...)...)
}

// mustRun runs a command that succeeds, and returns its output.
func (m *memoryd) mustRun(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	got := m.run(t, stdin, args...)
	if got.Status != exitOK {
		t.Fatalf("%q: %+v", args, got)
	}
	return got.Stdout
}

// put fills a namespace. A path with a "/" at the end is an empty directory.
func (m *memoryd) put(t *testing.T, namespace string, entries ...[2]string) {
	t.Helper()
	for _, e := range entries {
		path, content := e[0], e[1]
		dir := strings.HasSuffix(path, "/")
		if dir {
			path += "gone"
		}
		m.mustRun(t, content, "put", path, "-n", namespace)
		if dir {
			m.mustRun(t, "", "rm", path, "-n", namespace)
		}
	}
}

// contents are all entries of a namespace: files by their path, directories with a "/" at the end.
func (m *memoryd) contents(t testing.TB, namespace string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for token, first := "", true; first || token != ""; first = false {
		page, err := m.client.List(t.Context(), &memoryv1.ListRequest{
			Namespace: namespace, Path: rootPath, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.GetEntries() {
			if e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY {
				all[e.GetPath()+"/"] = fmt.Sprintf("%d files of %d bytes", e.GetFileCount(), e.GetSizeBytes())
				continue
			}
			var content bytes.Buffer
			_, err := m.client.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: e.GetPath()}, &content)
			if err != nil {
				t.Fatal(err)
			}
			all[e.GetPath()] = content.String()
			if got := sha256Hex(content.String()); got != e.GetSha256() {
				t.Errorf("%s: got SHA-256 %s, want %s", e.GetPath(), got, e.GetSha256())
			}
		}
		token = page.GetNextPageToken()
	}
	return all
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// file is an entry of an archive that is a file.
func file(name, content string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}, content}
}

// special is an entry of another type.
func special(kind byte, name string) tarEntry {
	return tarEntry{tar.Header{Typeflag: kind, Name: name, Linkname: "memories/target"}, ""}
}

type tarEntry struct {
	header  tar.Header
	content string
}

func tarOf(t testing.TB, entries ...tarEntry) string {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, e := range entries {
		if e.header.Typeflag == tar.TypeXGlobalHeader {
			e.header = tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: e.header.PAXRecords}
		}
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatalf("%q: %v", e.header.Name, err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// entriesOf are the entries of an archive: files with their contents, directories with a "/" at the end of the name.
func entriesOf(t testing.TB, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	a, err := openArchive(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		h, err := a.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, h.Size)
		if err := a.read(content); err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(content)
	}
}

// localFile is a file of its own directory.
func localFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// drain reads an archive to its end or its first error.
func drain(r io.Reader) error {
	a, err := openArchive(r)
	for err == nil {
		_, err = a.next()
	}
	return err
}

// An archive that lost its end, wherever, is never taken for a whole one.
func TestArchive_CutOff(t *testing.T) {
	whole := tarOf(t, file("memories/a", "text"), file("memories/b", strings.Repeat("b", 600)))
	for n := range len(whole) {
		if n > len(whole)-512 { // of the two empty blocks at the end some of the second may be missing
			break
		}
		if err := drain(strings.NewReader(whole[:n])); !errors.Is(err, errCutOff) {
			t.Errorf("%d of %d bytes: got %v, want %v", n, len(whole), err, errCutOff)
		}
	}
	if err := drain(strings.NewReader(whole)); !errors.Is(err, io.EOF) {
		t.Errorf("whole: got %v, want %v", err, io.EOF)
	}
	packed := gzipped(t, whole)
	for n := 2; n < len(packed); n++ {
		if err := drain(strings.NewReader(packed[:n])); !errors.Is(err, errCutOff) {
			t.Errorf("%d of %d bytes, gzipped: got %v, want %v", n, len(packed), err, errCutOff)
		}
	}
	if err := drain(strings.NewReader(packed)); !errors.Is(err, io.EOF) {
		t.Errorf("whole, gzipped: got %v, want %v", err, io.EOF)
	}
}

func TestArchive_Damaged(t *testing.T) {
	packed := []byte(gzipped(t, tarOf(t, file("memories/a", "text"))))
	packed[len(packed)-5] ^= 1 // of the checksum
	tests := []struct{ name, text, want string }{
		{"no tar", strings.Repeat("no tar", 1000), errNoArchive.Error()},
		{"no tar, gzipped", gzipped(t, strings.Repeat("no tar", 1000)), errNoArchive.Error()},
		{"no deflate", gzipped(t, "")[:10] + strings.Repeat("\xff", 100), "the archive is damaged"},
		{"checksum of gzip", string(packed), "the archive is damaged"},
		{"second header", tarOf(t, file("a", ""))[:512] + strings.Repeat("x", 1024), "the archive is damaged"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := drain(strings.NewReader(test.text)); got == nil || got.Error() != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// bomb is an archive with a file of zeros, gzipped to a thousandth.
func bomb(t testing.TB, megabytes int) string {
	t.Helper()
	var header bytes.Buffer
	err := tar.NewWriter(&header).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "memories/zeros", Size: int64(megabytes) << 20, Mode: 0o600,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Members of gzip one after the other are one file.
	zeros := gzipped(t, strings.Repeat("\x00", 1<<20))
	return gzipped(t, header.String()) + strings.Repeat(zeros, megabytes) + gzipped(t, strings.Repeat("\x00", 1024))
}

func TestArchive_Bomb(t *testing.T) {
	counting := &countingReader{r: strings.NewReader(bomb(t, 1024))}
	if err := drain(counting); !errors.Is(err, errExpands) {
		t.Errorf("got %v, want %v", err, errExpands)
	}
	if most := int64(200 << 10); counting.n > most {
		t.Errorf("read %d compressed bytes before it stopped, want at most %d", counting.n, most)
	}
}

// Zeros are the end of a tar: no more of them than a checksum needs is expanded.
func TestArchive_Zeros(t *testing.T) {
	if err := drain(strings.NewReader(gzipped(t, strings.Repeat("\x00", 8<<20)))); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want %v", err, io.EOF)
	}
}

func TestFoldName(t *testing.T) {
	same := [][]string{
		{"a/B", "A/b"},
		{"é", "e\u0301", "É", "E\u0301"},
		{"\u01f0", "J\u030c", "j\u030c"},
		{"K", "k", "\u212a"},        // Kelvin
		{"σ", "ς", "Σ"},             // the final sigma
		{"한", "\u1112\u1161\u11ab"}, // Hangul
	}
	seen := map[string]int{}
	for i, names := range same {
		for _, name := range names {
			if got, want := foldName(name), foldName(names[0]); got != want {
				t.Errorf("%q: got %q, want %q, that of %q", name, got, want, names[0])
			}
		}
		if j, ok := seen[foldName(names[0])]; ok {
			t.Errorf("%q and %q are folded alike", names, same[j])
		}
		seen[foldName(names[0])] = i
	}
}

func TestMemoryPath(t *testing.T) {
	type result struct{ Path, Refusal string }
	long := strings.Repeat("x", 255)
	const tooLong = "its name is too long: a name may have at most 255 bytes and a whole path at most 1024"
	for name, want := range map[string]result{
		"memories/notes.md":          {"/memories/notes.md", ""},
		"./memories//a/./b":          {"/memories/a/b", ""},
		"/memories/a":                {"/memories/a", ""},
		"notes.md":                   {"/memories/notes.md", ""},
		"memories/memories/a":        {"/memories/memories/a", ""},
		"Memories/a":                 {"/memories/Memories/a", ""},
		"memories":                   {"/memories", ""},
		"memories/":                  {"/memories", ""},
		"./":                         {"/memories", ""},
		"a/.../..b/c..":              {"/memories/a/.../..b/c..", ""},
		"100%/%20":                   {"/memories/100%/%20", ""},
		"\u0646\u0645\u06cc\u200c":   {"/memories/\u0646\u0645\u06cc\u200c", ""},
		"/etc/passwd":                {"", "its name is absolute and not below /memories"},
		"//etc/passwd":               {"", "its name is absolute and not below /memories"},
		"/memoriesx/a":               {"", "its name is absolute and not below /memories"},
		"..":                         {"", `its name has a ".." in it`},
		"memories/../a":              {"", `its name has a ".." in it`},
		"a/..":                       {"", `its name has a ".." in it`},
		"memories/a/%2e%2E/b":        {"", `its name has a ".." in it`},
		"memories/%252e%252e/b":      {"", `its name has a ".." in it`},
		"a%2f..%2fb":                 {"", `its name has a ".." in it`},
		`a\..\b`:                     {"", `its name has a ".." in it`},
		`C:\a`:                       {"", "its name has a backslash in it"},
		"a\x00b":                     {"", "its name has characters that cannot be seen"},
		"a\nb":                       {"", "its name has characters that cannot be seen"},
		"a\x1b[31m":                  {"", "its name has characters that cannot be seen"},
		"\u202egnp.exe":              {"", "its name has characters that cannot be seen"},
		"a\xff":                      {"", "its name is not valid UTF-8"},
		long:                         {"/memories/" + long, ""},
		long + "x":                   {"", tooLong},
		strings.Repeat("\u0958", 85): {"", tooLong}, // 255 bytes, but twice that in NFC
		strings.Repeat("abc/", 260):  {"", tooLong},
	} {
		path, refusal := memoryPath(rootPath, name)
		if diff := cmp.Diff(want, result{path, refusal}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	if got, _ := memoryPath("/memories/old", "memories/a"); got != "/memories/old/a" {
		t.Errorf("below a prefix: got %s, want /memories/old/a", got)
	}
}
