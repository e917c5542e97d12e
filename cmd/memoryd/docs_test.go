package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/server"
)

var update = flag.Bool("update", false, "write the tables of settings into the documentation")

const settingsPage = "../../docs/settings.md"

// settingsTable matches a table of settings and the names of those that it is for, which none stand for all.
var settingsTable = regexp.MustCompile(`(?s)<!-- settings((?: [\w-]+)*) -->\n(.*?)<!-- /settings -->`)

// tableOf is a table of the settings of these names, and of all where there are none.
func tableOf(names []string) string {
	var b strings.Builder
	b.WriteString("| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n")
	allSettings().VisitAll(func(f *pflag.Flag) {
		if len(names) > 0 && !slices.Contains(names, f.Name) {
			return
		}
		_, meaning := pflag.UnquoteUsage(f)
		value := strings.Trim(f.DefValue, "[]")
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", f.Name, envName(f.Name), value, meaning)
	})
	return b.String()
}

// pages returns the files of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no documentation: %v", err)
	}
	return append(files, "../../README.md")
}

// TestDocs_Settings checks the tables of settings on all pages. docs/settings.md has every setting once.
func TestDocs_Settings(t *testing.T) {
	times := map[string]int{}
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want := settingsTable.ReplaceAllStringFunc(string(content), func(table string) string {
			names := strings.Fields(settingsTable.FindStringSubmatch(table)[1])
			for _, name := range names {
				if allSettings().Lookup(name) == nil {
					t.Errorf("%s: there is no setting %s", page, name)
				}
				if page == settingsPage {
					times[name]++
				}
			}
			return "<!-- " + strings.Join(append([]string{"settings"}, names...), " ") + " -->\n" + tableOf(names) +
				"<!-- /settings -->"
		})
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(want, string(content)); diff != "" {
			t.Errorf("%s differs from the flags; write it anew with\n"+
				"\tgo test ./cmd/memoryd -run TestDocs_Settings -update\n(-want +got)\n%s", page, diff)
		}
	}
	allSettings().VisitAll(func(f *pflag.Flag) {
		if n := times[f.Name]; n != 1 {
			t.Errorf("%s has %s in %d tables, want it in 1: name it in a comment there, "+
				"such as <!-- settings %s -->, and say what it is for", settingsPage, f.Name, n, f.Name)
		}
	})
}

// isForeign matches YAML that is not for memoryd.
var isForeign = regexp.MustCompile(`(?m)^(apiVersion|scrape_configs|groups|services):`)

// TestDocs_YAML reads the files that the pages show: settings and principals.
func TestDocs_YAML(t *testing.T) {
	settings, principals := 0, 0
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(content, -1) {
			block := match[1]
			switch {
			case isForeign.Match(block):
			case regexp.MustCompile(`(?m)^principals:( \[\])?$`).Match(block):
				principals++
				if err := server.ValidatePrincipals(block); err != nil {
					t.Errorf("%s: %v\n%s", page, err, block)
				}
			default:
				settings++
				if err := readSettings(t, block); err != nil {
					t.Errorf("%s: %v\n%s", page, err, block)
				}
			}
		}
	}
	if settings == 0 || principals == 0 {
		t.Errorf("%d files of settings and %d of principals were found, want some of both", settings, principals)
	}
}

// readSettings reads a file of settings as the service does.
func readSettings(t *testing.T, content []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "memoryd.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(allSettings(), environment(map[string]string{"MEMORYD_CONFIG": file}))
	if err != nil {
		return err
	}
	_, err = s.serverConfig()
	return err
}
