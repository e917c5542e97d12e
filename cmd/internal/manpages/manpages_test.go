package manpages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestWrite(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1796040000") // 2026-11-30, at noon
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "program", Short: "Do things", Run: run, Long: "Program does **things** to <files>, as in\n\n  a  b\n\nand more."}
	root.Flags().String("pattern", "a/**", "namespaces such as acme/**, in a `list` of some_names")
	root.Flags().StringSlice("listen", []string{"127.0.0.1:7711"}, "`address` to serve on")
	root.Flags().Bool("once", false, "do it once")
	root.PersistentFlags().Duration("timeout", 0, "how long it may take")
	sub := &cobra.Command{Use: "sub FILE", Short: "Do one thing", Run: run, Example: "  program sub x_y"}
	root.AddCommand(sub, &cobra.Command{Use: "topic", Short: "What to know", Long: "This."},
		&cobra.Command{Use: "secret", Hidden: true, Run: run})
	dir := filepath.Join(t.TempDir(), "man")
	if err := Write(dir, root, "1"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"program-sub.1", "program-topic.1", "program.1"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, wants := range map[string][]string{
		"program.1": {
			`.TH "PROGRAM" "1" "Nov 2026" "program" "memoryd manual"`, "program - Do things", "Program does **things** to <files>",
			"\n.EX\n  a  b\n", ".TP\nfB--patternfP fIlistfP\nnamespaces such as acme/**, in a list of some_names (default \"a/**\")\n",
			".TP\nfB--listenfP fIaddressfP\naddress to serve on (default 127.0.0.1:7711)\n", ".TP\nfB--oncefP\ndo it once\n",
			".TP\nfB-hfP, fB--helpfP\nhelp for program\n", "program-sub(1)",
		},
		"program-sub.1":   {"program sub FILE", "program sub x_y", ".TP\nfB--timeoutfP fIdurationfP\nhow long it may take\n", "program(1)"},
		"program-topic.1": {".SH DESCRIPTION\nThis.\n\n\n.SH SEE ALSO\nfBprogram(1)fP\n"},
	} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(page), `\`, "")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, page)
			}
		}
		if name == "program-topic.1" && (strings.Contains(text, "SYNOPSIS") || strings.Contains(text, "--help")) {
			t.Errorf("%s shows how to run what cannot be run:\n%s", name, page)
		}
		if strings.Contains(text, "cobra") {
			t.Errorf("%s tells of what made it:\n%s", name, page)
		}
	}
}
