package e2e

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what commands print, and what is generated, into the documentation")

const (
	// stopped stands on a page where its reader stops what the page has started so far.
	stopped = "<!-- memoryd is stopped here -->"
	// anything stands in an output for lines that a page does not show.
	anything = "...\n"
)

// notCommands are the languages of blocks that are no commands.
var notCommands = []string{"go", "ini", "json", "python", "text", "yaml"}

// showsFile matches the first line of a block that shows a file which the next commands use.
var showsFile = regexp.MustCompile(`^# ([\w./-]+\.ya?ml)\n`)

// TestDocs runs every command of the documentation: those of a page in order, as its reader would. Where a page shows
// what a command prints, that must be so, but for times and other things that are never the same; a command that shows
// nothing must succeed. Blocks of sh have the commands that notRun lists, and those alone.
func TestDocs(t *testing.T) {
	for _, name := range documentation(t) {
		t.Run(path.Base(name), func(t *testing.T) {
			p := readPage(t, name)
			s := newSandbox(t)
			for i, part := range p.parts {
				switch {
				case part.fence == "" && strings.Contains(part.text, stopped):
					s.stop(t)
				case part.language == "yaml" && showsFile.MatchString(part.text):
					s.write(t, showsFile.FindStringSubmatch(part.text)[1], part.text)
				case part.language == "console":
					p.parts[i].text = runBlock(t, s, part.text)
				case part.language == "sh":
					checkNotRun(t, part.text)
				case part.fence != "" && !slices.Contains(notCommands, part.language):
					t.Errorf("a block is in %q: commands are in console, or in sh where they cannot be run here; anything else "+
						"is one of %s", part.language, strings.Join(notCommands, ", "))
				}
			}
			if got := p.String(); *update && !t.Failed() {
				file := filepath.Join(repository, filepath.FromSlash(name))
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// runBlock runs a block of console and returns it with what its commands print.
func runBlock(t *testing.T, s *sandbox, block string) string {
	t.Helper()
	cs := commands(block)
	for i, c := range cs {
		output, ok := s.run(t, c)
		switch {
		case c.output == "" && !ok:
			t.Errorf("%sfailed:\n%s", c.text, output)
		case c.output == "" || matches(c.output, output):
		case *update:
			cs[i].output = output
		default:
			t.Errorf("%sprints something else; go test ./cmd/e2e -run TestDocs -update would write it (-page +got)\n%s",
				c.text, cmp.Diff(stable(c.output), stable(output)))
		}
	}
	return consoleBlock(cs)
}

// matches tells whether a command has printed what the page shows.
func matches(shown, got string) bool {
	var pattern strings.Builder
	for i, piece := range strings.Split("\n"+stable(shown), "\n"+anything) {
		if i > 0 {
			pattern.WriteString(`\n(?:.*\n)*?`)
		}
		pattern.WriteString(regexp.QuoteMeta(piece))
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString("\n" + stable(got))
}

// unstable is what differs each time.
var unstable = []struct {
	is      *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{8}T\d{6}(?:\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`memoryd_[\w-]{20,}`), "TOKEN"},
	{regexp.MustCompile(`sha256:[0-9a-f]{8,64}\b`), "HASH"},
	{regexp.MustCompile(`\bkey \d{6,10}\b`), "key ID"},
	{regexp.MustCompile(`(?m)^\d{6,10} +(primary|old)\b`), "ID $1"},
	{regexp.MustCompile(`\bprocess \d+`), "process PID"},
	{regexp.MustCompile(`\bpeer=\S+`), "peer=PEER"},
	{regexp.MustCompile(`"(peer|request_id|x_request_id)":"[^"]*"`), "$1"},
	{regexp.MustCompile(`request id [0-9a-f]{32}`), "request id ID"},
	{regexp.MustCompile(`\b(duration|took)=\S+`), "$1=DURATION"},
	{regexp.MustCompile(`\d+(\.\d+)?(µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`(Wrote \S+) \([\d.]+[BKMG]\)`), "$1"},
	{regexp.MustCompile(`  +`), "  "}, // of columns, which are wider where a test has longer paths
}

// stable is an output without what differs each time.
func stable(output string) string {
	for _, u := range unstable {
		output = u.is.ReplaceAllString(output, u.instead)
	}
	return output
}

// checkNotRun checks that a block has nothing but commands of notRun.
func checkNotRun(t *testing.T, block string) {
	t.Helper()
	continued := false
	for line := range strings.Lines(block) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && name != "#" && !continued && notRun[name] == "" {
			t.Errorf("%q is in a block of sh, whose commands are not run; make it one of console, "+
				"or say in notRun why %s cannot be run", strings.TrimSpace(line), name)
		}
		continued = strings.HasSuffix(line, "\\\n")
	}
}
