package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
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
