package main

import (
	"flag"
	"testing"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/manpages"
)

var manDir = flag.String("man", "", "write the manual pages of memory-agent to this directory")

// TestManPages writes the manual pages. `make dist` says where to.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	if err := manpages.Write(dir, (&cli{}).rootCommand(), "1"); err != nil {
		t.Fatal(err)
	}
}
