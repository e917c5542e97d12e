package e2e

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	inline  = regexp.MustCompile("`[^`\n]*`")
)

// anchors returns what a link to a page may have after "#", by the rules of GitHub.
func anchors(p page) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(p.prose(), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1"))
		for i, unique := 1, slug; ; i++ {
			if !all[unique] {
				all[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", slug, i)
		}
	}
	for _, match := range anchor.FindAllStringSubmatch(p.prose(), -1) {
		all[match[1]] = true
	}
	return all
}

// TestDocs_Links checks that the links within the repository lead somewhere, to the heading too.
func TestDocs_Links(t *testing.T) {
	checked := 0
	for _, name := range allPages(t) {
		for _, match := range link.FindAllStringSubmatch(inline.ReplaceAllString(readPage(t, name).prose(), ""), -1) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") { // elsewhere
				continue
			}
			checked++
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: %s leads nowhere", name, match[1])
				continue
			}
			if fragment != "" && strings.HasSuffix(to, ".md") && !anchors(readPage(t, to))[fragment] {
				t.Errorf("%s: %s has no heading for %s", name, to, match[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were found", checked)
	}
}

// TestDocs_Index checks that docs/README.md leads to all pages.
func TestDocs_Index(t *testing.T) {
	index := readPage(t, "docs/README.md").prose()
	for _, name := range documentation(t) {
		base := path.Base(name)
		if path.Dir(name) == "docs" && base != "README.md" && !strings.Contains(index, "("+base+")") {
			t.Errorf("docs/README.md does not lead to %s", base)
		}
	}
}

// TestDocs_NameTests checks that every test that a page names is there.
func TestDocs_NameTests(t *testing.T) {
	for name, least := range map[string]int{"docs/reliability.md": 20, "docs/security.md": 10} {
		row := regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?:, )?)+) in ([\\w/-]+)(?: and (\\w+))?")
		rows := row.FindAllStringSubmatch(readPage(t, name).prose(), -1)
		if len(rows) < least {
			t.Fatalf("%s: only %d places with tests were found", name, len(rows))
		}
		for _, match := range rows {
			for _, dir := range match[2:] {
				if dir == "" {
					continue
				}
				source := sources(t, filepath.Join(repository, dir, "*_test.go"))
				for _, test := range regexp.MustCompile(`(?:Test|Fuzz)\w+`).FindAllString(match[1], -1) {
					if !strings.Contains(source, "\nfunc "+test+"(") {
						t.Errorf("%s: %s has no %s", name, dir, test)
					}
				}
			}
		}
	}
}

// TestDocs_LogMessages checks that the lines of the log that pages show are those that the service writes.
func TestDocs_LogMessages(t *testing.T) {
	source := sources(t, filepath.Join(repository, "server", "*.go"), filepath.Join(repository, "server", "*", "*.go"),
		filepath.Join(repository, "server", "*", "*", "*.go"), filepath.Join(repository, "cmd", "memoryd", "*.go"))
	source = regexp.MustCompile(`" \+\n\t+"`).ReplaceAllString(source, "") // of long messages
	found := 0
	for _, name := range documentation(t) {
		for _, block := range readPage(t, name).blocks("text") {
			for _, match := range regexp.MustCompile(`level=[A-Z]+ msg=(?:"([^"]+)"|(\S+))`).FindAllStringSubmatch(block, -1) {
				found++
				if !strings.Contains(source, match[1]+match[2]+`"`) {
					t.Errorf("%s: nothing logs %q", name, match[1]+match[2])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d lines of the log were found", found)
	}
}

// sources returns the text of all files that match one of the patterns.
func sources(t *testing.T, patterns ...string) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}
