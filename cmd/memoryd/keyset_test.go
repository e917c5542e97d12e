package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// newKeyset makes a keyset and returns the flag that names it.
func newKeyset(t *testing.T) (flag, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keyset.json")
	flag = "--encryption-keyset=" + path
	got := memoryd(t, nil, "keyset", "new", flag)
	want := regexp.MustCompile(`^` + path + ` was made, with key \d+\. Keep a copy of it where the backups are not\.\n$`)
	if got.Status != 0 || !want.MatchString(got.Stdout) || got.Stderr != "" {
		t.Fatalf("keyset new: got %+v", got)
	}
	return flag, path
}

func TestKeyset(t *testing.T) {
	flag, path := newKeyset(t)
	wantOutcome(t, memoryd(t, nil, "keyset", "new", flag), outcome{Status: 1, Stderr: fmt.Sprintf(
		"memoryd: make keyset: open %s: file exists; it is left as it is: "+
			"without it nobody could read what was encrypted with it\n", path)})
	got := memoryd(t, map[string]string{"MEMORYD_ENCRYPTION_KEYSET": path}, "keyset", "rotate")
	id := regexp.MustCompile(`was rotated: key (\d+) is primary\. Keep a copy of the new file\.\n$`).FindStringSubmatch(got.Stdout)
	if got.Status != 0 || id == nil {
		t.Fatalf("keyset rotate: got %+v", got)
	}
	got = memoryd(t, nil, "keyset", "status", flag)
	want := regexp.MustCompile(`^KEY +STATE\n\d+ +old\n` + id[1] + ` +primary\n$`)
	if got.Status != 0 || !want.MatchString(got.Stdout) || got.Stderr != "" {
		t.Errorf("keyset status: got %+v", got)
	}
	for _, command := range []string{"new", "rotate", "status"} {
		wantOutcome(t, memoryd(t, nil, "keyset", command), outcome{
			Status: 2, Stderr: `memoryd: --encryption-keyset is "" (default): it must be the file of the keyset` + "\n",
		})
		if help := memoryd(t, nil, "keyset", command, "--help"); !strings.Contains(help.Stdout, "--encryption-keyset") {
			t.Errorf("keyset %s: got the help %s", command, help.Stdout)
		}
	}
	if help := memoryd(t, nil, "keyset"); help.Status != 0 || !strings.Contains(help.Stdout, "rotate") {
		t.Errorf("keyset: got %+v, want the help", help)
	}
}

// columns makes the width of the columns of a table no matter.
func columns(text string) string { return regexp.MustCompile(`  +`).ReplaceAllString(text, "  ") }

// From memories that are not encrypted to a keyset that was rotated, as an operator goes.
func TestEncrypt(t *testing.T) {
	t.Chdir(t.TempDir())
	serve := func(args ...string) {
		t.Helper()
		_, stop := startDaemon(t, append([]string{"--listen=unix:m.sock", "--http=", "--data=data"}, args...)...)
		create(t, "unix:m.sock")
		status := memoryd(t, nil, append([]string{"keyset", "status", "--data=data"}, args...)...)
		if len(args) > 0 && (status.Status != 0 || !strings.Contains(status.Stderr, "how many namespaces need each key cannot be told: ")) {
			t.Errorf("keyset status beside a service: got %+v", status)
		}
		if status := stop(); status != 0 {
			t.Fatalf("got status %d, want 0", status)
		}
	}
	serve()
	keyset, path := newKeyset(t)
	wantOutcome(t, memoryd(t, nil, "--listen=unix:m.sock", "--http=", "--data=data", keyset), outcome{Status: 2, Stderr: fmt.Sprintf(
		"memoryd: --encryption-keyset is %s (flag): it must be empty, since the store is not encrypted; "+
			"memoryd encrypt encrypts one\n", path)})
	wantOutcome(t, memoryd(t, nil, "encrypt", "--data=data"), outcome{
		Status: 2, Stderr: `memoryd: --encryption-keyset is "" (default): it must be the keyset to encrypt with; ` +
			"memoryd keyset new makes one\n",
	})

	got := memoryd(t, nil, "encrypt", "--data=data", keyset)
	kept := regexp.MustCompile(`^data is encrypted\. Namespaces: 1\. Files: 1\. Bytes: 5\.\n` +
		`What was there is kept as (\S+), which is not encrypted: delete it when the service works\.\n$`).
		FindStringSubmatch(got.Stdout)
	if got.Status != 0 || kept == nil {
		t.Fatalf("encrypt: got %+v", got)
	}
	if err := os.Remove(kept[1]); err != nil {
		t.Error(err)
	}
	wantOutcome(t, memoryd(t, nil, "encrypt", "--data=data", keyset), outcome{
		Status: 1, Stderr: "memoryd: encrypt store: the store is encrypted already\n",
	})
	const missing = `memoryd: --encryption-keyset is "" (default): it must be the keyset that the store was encrypted with` + "\n"
	for _, command := range [][]string{{"check"}, {"compact"}, {"--listen=unix:m.sock", "--http="}} {
		wantOutcome(t, memoryd(t, nil, append(command, "--data=data")...), outcome{Status: 2, Stderr: missing})
	}
	wantOutcome(t, memoryd(t, nil, "check", "--data=data", keyset),
		outcome{Stdout: "data is well-formed. Namespaces: 1. Files: 1. Bytes: 5.\n"})
	other, otherPath := newKeyset(t)
	got = memoryd(t, nil, "check", "--data=data", other)
	want := regexp.MustCompile(`^memoryd: --encryption-keyset is ` + otherPath + ` \(flag\): ` +
		`key \d+ is missing: it is not the keyset that the store was encrypted with\n$`)
	if got.Status != 2 || !want.MatchString(got.Stderr) {
		t.Errorf("check with another keyset: got %+v", got)
	}
	serve(keyset)

	wantCounts := func(old, primary string) {
		t.Helper()
		got := memoryd(t, nil, "keyset", "status", "--data=data", keyset)
		want := regexp.MustCompile(`^KEY  STATE  NAMESPACES\n\d+  old  ` + old + `\n\d+  primary  ` + primary + `\n$`)
		if got.Status != 0 || !want.MatchString(columns(got.Stdout)) {
			t.Errorf("keyset status: got %+v, want %s and %s", got, old, primary)
		}
	}
	if got := memoryd(t, nil, "keyset", "rotate", keyset); got.Status != 0 {
		t.Fatalf("keyset rotate: got %+v", got)
	}
	wantCounts(`[12]`, "0") // The state of the service may count.
	if got := memoryd(t, nil, "keyset", "status", "--data=data", other); got.Status != 1 ||
		!strings.Contains(got.Stderr, "which the keyset lacks") {
		t.Errorf("keyset status of another keyset: got %+v", got)
	}
}
