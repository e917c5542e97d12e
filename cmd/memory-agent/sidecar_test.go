package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
)

func TestFindMemoryd(t *testing.T) {
	executable := func() string {
		path := filepath.Join(t.TempDir(), "memoryd")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named, beside, inPath := executable(), executable(), executable()
	self := filepath.Join(filepath.Dir(beside), "memory-agent")
	lonely := filepath.Join(t.TempDir(), "memory-agent")
	t.Setenv("PATH", filepath.Dir(inPath))
	for _, test := range []struct{ named, self, want string }{
		{named, self, named},
		{"", self, beside},
		{"", lonely, inPath},
	} {
		if got, err := findMemoryd(test.named, test.self); got != test.want || err != nil {
			t.Errorf("%q, %q: got %s, %v, want %s", test.named, test.self, got, err, test.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if got, err := findMemoryd("", lonely); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("got %s, %v, want how to get one", got, err)
	}
}

// A memoryd that does not start is an error at once, with what it says.
func TestSidecar_Ends(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	program := filepath.Join(t.TempDir(), "memoryd")
	for _, test := range []struct{ script, want string }{
		{"echo no such luck >&2\nexit 1\n", "memoryd ended: no such luck"},
		{"exit 0\n", program + " ended without a word instead of serving: is it a memoryd?"},
	} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+test.script), 0o700); err != nil {
			t.Fatal(err)
		}
		target := "unix:" + filepath.Join(t.TempDir(), "s")
		s, err := startSidecar(program, target, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		m, err := client.Dial(target, client.WithRetryBudget(time.Hour), client.WithTimeout(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.await(t.Context(), m); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
		s.stop() // it has ended already
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
