package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/server"
)

var update = flag.Bool("update", false, "write the table of settings into README.md")

const (
	readmePath  = "../../README.md"
	tableBegins = "<!-- settings -->\n"
	tableEnds   = "<!-- /settings -->"
)

// settingsTable is the table of settings as README.md has it.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n")
	allSettings().VisitAll(func(f *pflag.Flag) {
		_, meaning := pflag.UnquoteUsage(f)
		value := strings.Trim(f.DefValue, "[]")
		if value != "" {
			value = "`" + value + "`"
		}
		b.WriteString("| `--" + f.Name + "` | `" + envName(f.Name) + "` | " + value + " | " + meaning + " |\n")
	})
	return b.String()
}

func TestReadme(t *testing.T) {
	content, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("README.md has no table of settings between %q and %q", tableBegins, tableEnds)
	}
	if *update {
		content := before + tableBegins + settingsTable() + tableEnds + after
		if err := os.WriteFile(readmePath, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(settingsTable(), table); diff != "" {
		t.Errorf("README.md differs from the flags; write it anew with\n"+
			"\tgo test ./cmd/memoryd -run TestReadme -update\n(-want +got)\n%s", diff)
	}
}

// yamlBlocks returns the blocks of a page that are YAML.
func yamlBlocks(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(content, -1) {
		blocks = append(blocks, string(match[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no YAML", page)
	}
	return blocks
}

// TestDocs_YAML reads the files that the pages show.
func TestDocs_YAML(t *testing.T) {
	for _, block := range yamlBlocks(t, "../../docs/security.md") {
		if err := server.ValidatePrincipals([]byte(block)); err != nil {
			t.Errorf("docs/security.md: %v\n%s", err, block)
		}
	}
	for _, block := range yamlBlocks(t, readmePath) {
		file := filepath.Join(t.TempDir(), "memoryd.yaml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := loadSettings(allSettings(), environment(map[string]string{"MEMORYD_CONFIG": file}))
		if err != nil {
			t.Errorf("README.md: %v\n%s", err, block)
			continue
		}
		if _, err := s.serverConfig(); err != nil {
			t.Errorf("README.md: %v\n%s", err, block)
		}
	}
}
