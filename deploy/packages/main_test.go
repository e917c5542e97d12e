package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestArchives_Reproducible writes each kind of archive twice, in different places and times.
func TestArchives_Reproducible(t *testing.T) {
	commit := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, write := range map[string]func(io.Writer, []file, time.Time) error{
		"tar": writeTar, "tar.gz": writeTarGzip, "zip": writeZip,
	} {
		var outputs [2]bytes.Buffer
		for i := range outputs {
			source := filepath.Join(t.TempDir(), "source")
			if err := os.WriteFile(source, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(source, time.Time{}, commit.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
			files := []file{{name: "a/b", source: source, mode: 0o755}, {name: "c", content: []byte("more"), mode: 0o644}}
			local := commit.In(time.FixedZone("", 3600*i))
			if err := write(&outputs[i], files, local); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(outputs[0].Bytes(), outputs[1].Bytes()) {
			t.Errorf("%s: the same files make another archive", name)
		}
	}
}

// What README.md and the pages of the documentation link to is in the archives, at the same place.
func TestRelease_Documentation(t *testing.T) {
	r := &release{root: filepath.Join("..", "..")}
	for _, system := range []string{"linux", "windows"} {
		var names []string
		for _, f := range r.files(platform{system, "amd64"}, "bin", "share") {
			names = append(names, f.name)
		}
		for _, want := range []string{
			"README.md", "docs/README.md", "docs/operations.md", "docs/performance.svg", "deploy/prometheus/memoryd.rules.yml",
			"deploy/grafana/memoryd.json",
		} {
			if !slices.Contains(names, want) {
				t.Errorf("%s: got %q, want %s among them", system, names, want)
			}
		}
	}
}

func TestWriteSums(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a", sumsName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "stage"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	got, err := os.ReadFile(filepath.Join(dir, sumsName))
	if want := sum + "  a\n" + sum + "  b\n"; string(got) != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestRun_Errors(t *testing.T) {
	for want, args := range map[string][]string{
		"nothing to make: give archives, image or deb":            {},
		`"rpm" is not archives, image or deb`:                     {"deb", "rpm"},
		`platform "linux": want GOOS/GOARCH, such as linux/amd64`: {"-platforms", "linux", "deb"},
	} {
		if err := run(t.Context(), args); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

func TestLicenseOf(t *testing.T) {
	dir := t.TempDir()
	if _, err := licenseOf(dir); err == nil {
		t.Error("a module without a licence is taken")
	}
	for _, name := range []string{"LICENSE-MIT", "NOTICE.txt", "licence", "license.go", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := licenseOf(dir)
	if want := "LICENSE-MIT\nNOTICE.txt\nlicence\n"; string(got) != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAuthorities(t *testing.T) {
	if n := bytes.Count(authorities(), []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("got %d authorities", n)
	}
}
