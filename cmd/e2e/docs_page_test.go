package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is the root of the sources.
const repository = "../.."

// page is a page of the documentation.
type page struct {
	name  string // its path from the root of the repository, with slashes
	parts []part
}

// part is a block of code, or what stands before, between and after those.
type part struct {
	language string // what follows the fence; "" for what is no block, too
	fence    string // what opens the block; "" for what is no block
	text     string // without fences
}

var fence = regexp.MustCompile("^ *```(\\w*)\n$")

// readPage reads a page.
func readPage(t *testing.T, name string) page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: name, parts: []part{{}}}
	for line := range strings.Lines(string(content)) {
		last := &p.parts[len(p.parts)-1]
		match := fence.FindStringSubmatch(line)
		switch {
		case match == nil:
			last.text += line
		case last.fence == "":
			p.parts = append(p.parts, part{language: match[1], fence: line})
		default:
			p.parts = append(p.parts, part{})
		}
	}
	if p.parts[len(p.parts)-1].fence != "" {
		t.Fatalf("%s: a block does not end", name)
	}
	return p
}

// String is the page as it is in its file.
func (p page) String() string {
	var b strings.Builder
	for _, part := range p.parts {
		b.WriteString(part.fence + part.text)
		if part.fence != "" {
			b.WriteString(part.fence[:strings.Index(part.fence, "```")] + "```\n")
		}
	}
	return b.String()
}

// blocks returns the text of the blocks in a language.
func (p page) blocks(language string) []string {
	var blocks []string
	for _, part := range p.parts {
		if part.fence != "" && part.language == language {
			blocks = append(blocks, part.text)
		}
	}
	return blocks
}

// prose is the page without its blocks.
func (p page) prose() string {
	var b strings.Builder
	for _, part := range p.parts {
		if part.fence == "" {
			b.WriteString(part.text)
		}
	}
	return b.String()
}

// documentation returns the names of all pages for users: README.md and what is in docs, in that order.
func documentation(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("docs has no pages: %v", err)
	}
	names := []string{"README.md", "CONTRIBUTING.md"}
	for _, file := range files {
		names = append(names, "docs/"+filepath.Base(file))
	}
	return names
}

// allPages returns the names of all pages in the repository, those for developers too.
func allPages(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") ||
			slices.Contains([]string{"bin", "dist", "node_modules", "memoryd-data"}, entry.Name())):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// command is a command of a block of console, with the output that the page shows.
type command struct {
	text   string // with the lines that continue it
	output string
}

// commands reads a block of console: what follows "$ " is a command, with its next line where it ends in a backslash,
// and the lines after it are its output.
func commands(block string) []command {
	var cs []command
	continued := false
	for line := range strings.Lines(block) {
		text, begins := strings.CutPrefix(line, "$ ")
		switch {
		case continued:
			cs[len(cs)-1].text += line
			continued = strings.HasSuffix(line, "\\\n")
		case begins:
			cs = append(cs, command{text: text})
			continued = strings.HasSuffix(line, "\\\n")
		case len(cs) > 0:
			cs[len(cs)-1].output += line
		}
	}
	return cs
}

// consoleBlock is commands as a block of console has them.
func consoleBlock(cs []command) string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString("$ " + c.text + c.output)
	}
	return b.String()
}
