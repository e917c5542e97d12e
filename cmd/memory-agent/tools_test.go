package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeLibrary returns the documents of a directory with some files.
func makeLibrary(t *testing.T, files map[string]string) (l *library, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openTestLibrary(t, dir), dir
}

func openTestLibrary(t *testing.T, dir string) *library {
	t.Helper()
	l, err := openLibrary(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
	return l
}

// callTool calls a document tool as a runner does, and returns its text or its error.
func callTool(t *testing.T, l *library, name, input string) string {
	t.Helper()
	for _, tool := range documentTools(l) {
		if tool.Name() != name {
			continue
		}
		content, err := tool.Execute(t.Context(), json.RawMessage(input))
		if err != nil {
			return "Error: " + err.Error()
		}
		return content[0].OfText.Text
	}
	t.Fatalf("there is no tool %s", name)
	return ""
}

func TestTools(t *testing.T) {
	l, _ := makeLibrary(t, map[string]string{
		"boats.md":      "# Boats\n\nThe ferry is red.\nThe pilot boat is blue.\r\nFerries are slow.\n",
		"sub/birds.txt": "Gulls sit on the ferry.\n",
		"empty":         "",
		".hidden":       "ferry",
		".git/config":   "ferry",
		"picture":       "\x89PNG\x00 ferry",
		"large":         strings.Repeat("ferry ", maxDocumentBytes/6+1),
	})
	tests := []struct{ tool, input, want string }{
		{toolList, `{}`, "5 documents:\nboats.md (70 bytes)\nempty (0 bytes)\nlarge (1048578 bytes)\npicture (11 bytes)\n" +
			"sub/birds.txt (24 bytes)"},
		{toolSearch, `{"query":"Red ferries!"}`, "2 documents, the best first:\n" +
			"boats.md (2 of 2 words)\n  3: The ferry is red.\n  5: Ferries are slow.\nsub/birds.txt (1 of 2 words)\n  1: Gulls sit on the ferry."},
		{toolSearch, `{"query":"submarine"}`, "No document has any of these words. Try others, or see list_documents."},
		{toolSearch, `{"query":"?!"}`, "Error: the query has no words. Send some words that the documents may have"},
		{toolSearch, `{}`, "Error: the query has no words. Send some words that the documents may have"},
		{toolRead, `{"name":"boats.md"}`, "boats.md, lines 1 to 5 of 5:\n1: # Boats\n2: \n3: The ferry is red.\n" +
			"4: The pilot boat is blue.\n5: Ferries are slow."},
		{toolRead, `{"name":"./sub//birds.txt "}`, "./sub//birds.txt , lines 1 to 1 of 1:\n1: Gulls sit on the ferry."},
		{toolRead, `{"name":"boats.md","first_line":5}`, "boats.md, lines 5 to 5 of 5:\n5: Ferries are slow."},
		{toolRead, `{"name":"boats.md","first_line":-1}`, "boats.md, lines 1 to 5 of 5:\n1: # Boats\n2: \n3: The ferry is red.\n" +
			"4: The pilot boat is blue.\n5: Ferries are slow."},
		{toolRead, `{"name":"boats.md","first_line":6}`, "Error: there is no line 6: the document has 5"},
		{toolRead, `{"name":"empty"}`, "empty, lines 1 to 1 of 1:\n1: "},
		{toolRead, `{"name":"boat.md"}`, `Error: there is no document "boat.md". Use a name as list_documents gives it`},
		{toolRead, `{}`, `Error: the name is missing. Send the name of a document as list_documents gives it`},
		{toolRead, `{"name":" "}`, `Error: the name is missing. Send the name of a document as list_documents gives it`},
		{toolRead, `{"name":"sub"}`, `Error: "sub" is a directory. Use the name of a document as list_documents gives it`},
		{toolRead, `{"name":"picture"}`, `Error: "picture" is not a text. Use the other documents`},
		{toolRead, `{"name":"large"}`, `Error: "large" is larger than 1048576 bytes, which is the most that can be read. ` +
			"Use the other documents, and say in your answer that this one was not read"},
	}
	for _, test := range tests {
		t.Run(test.tool+test.input, func(t *testing.T) {
			if diff := cmp.Diff(test.want, callTool(t, l, test.tool, test.input)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever name the model gives, it reads nothing outside of the directory.
func TestTools_Confined(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, dir := makeLibrary(t, map[string]string{"a": "x"})
	for _, link := range []struct{ target, name string }{{outside, "link"}, {filepath.Dir(outside), "dir"}} {
		if err := os.Symlink(link.target, filepath.Join(dir, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	relative, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outside, relative, "a/../" + relative, "link", "dir/secret", "/etc/passwd", "..", "a\x00b"} {
		input, err := json.Marshal(readInput{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		got := callTool(t, l, toolRead, string(input))
		if !strings.HasPrefix(got, "Error: there is no document ") || strings.Contains(got, "permission") {
			t.Errorf("read %q: got %q, want that there is no such document", name, got)
		}
	}
	if got, want := callTool(t, l, toolList, `{}`), "1 document:\na (1 bytes)"; got != want {
		t.Errorf("list: got %q, want %q", got, want)
	}
	if got, want := callTool(t, l, toolSearch, `{"query":"secret"}`), "No document has any"; !strings.HasPrefix(got, want) {
		t.Errorf("search: got %q, want %q", got, want)
	}
}

// A pipe must not hold up the agent.
func TestTools_NotAFile(t *testing.T) {
	l, dir := makeLibrary(t, map[string]string{"a": "x"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skipf("make pipe: %v", err)
	}
	want := `Error: "pipe" is not a document. Use a name as list_documents gives it`
	if got := callTool(t, l, toolRead, `{"name":"pipe"}`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := callTool(t, l, toolSearch, `{"query":"x"}`), "1 document, the best first:\na (1 of 1 word)\n  1: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTools_Caps(t *testing.T) {
	files := map[string]string{"long line": strings.Repeat("word", maxLineChars)}
	var lines strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&lines, "word %d\n", i+1)
	}
	files["long"] = lines.String()
	for i := range maxListed {
		files[fmt.Sprintf("n%d", i)] = "word"
	}
	l, _ := makeLibrary(t, files)

	text := callTool(t, l, toolRead, `{"name":"long"}`)
	rest := `There is more: read on with first_line `
	var next int
	if _, err := fmt.Sscanf(text[strings.LastIndex(text, "\n")+1:], rest+"%d.", &next); err != nil {
		t.Fatalf("got %q, want how to read on", text[len(text)-100:])
	}
	if n := len(text); n > maxResultChars+200 || n < maxResultChars-200 {
		t.Errorf("got %d bytes, want about %d", n, maxResultChars)
	}
	seen := map[int]bool{}
	for first := 1; first > 0; {
		text := callTool(t, l, toolRead, fmt.Sprintf(`{"name":"long","first_line":%d}`, first))
		for _, l := range parseLines(text) {
			if want := fmt.Sprintf("word %d", l.number); l.text != want || seen[l.number] {
				t.Fatalf("line %d: got %q (again: %t), want %q", l.number, l.text, seen[l.number], want)
			}
			seen[l.number] = true
		}
		first = 0
		_, _ = fmt.Sscanf(text[strings.LastIndex(text, "\n")+1:], rest+"%d.", &first)
	}
	if len(seen) != 4000 {
		t.Errorf("got %d lines, want all 4000", len(seen))
	}

	want := "long line, lines 1 to 1 of 1:\n1: " + files["long line"][:maxLineChars] + " [the rest of this line is not shown]"
	if diff := cmp.Diff(want, callTool(t, l, toolRead, `{"name":"long line"}`)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := callTool(t, l, toolList, `{}`), "Only the first 200 are listed. Use search_documents to find the others."; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got[len(got)-100:], want)
	}
	got := callTool(t, l, toolSearch, `{"query":"word"}`)
	if want := "Only the best 8 are shown. More words find fewer."; !strings.HasSuffix(got, want) || strings.Count(got, "\n  ") != maxHits+maxHitLines-1 {
		t.Errorf("got %q, want %d documents and %q", got, maxHits, want)
	}
}

// A text with many different words in one line is searched like any other.
func TestTools_ManyWords(t *testing.T) {
	var words strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&words, "w%d ", i)
	}
	l, _ := makeLibrary(t, map[string]string{"words": words.String()})
	want := "1 document, the best first:\nwords (2 of 3 words)\n  1: "
	if got := callTool(t, l, toolSearch, `{"query":"w99999 w1 none"}`); !strings.HasPrefix(got, want) {
		t.Errorf("got %.100q, want %q", got, want)
	}
}

// What there is in a directory, and what of it is left out.
func TestLibrary_Survey(t *testing.T) {
	many := map[string]string{}
	for i := range maxDocuments + 1 {
		many[fmt.Sprintf("n%04d", i)] = "x"
	}
	for _, test := range []struct {
		name      string
		files     map[string]string
		documents int
		without   string
	}{
		{"nothing", nil, 0, ""},
		{"documents", map[string]string{"a": "x", "b/c": ""}, 2, ""},
		{"hidden", map[string]string{".a": "x", ".b/c": "x"}, 0, ""},
		{
			"others",
			map[string]string{"a": "x", "b": "\x00", "c": "\xff", "d": strings.Repeat("x", maxDocumentBytes+1)},
			1,
			" (3 left out: 2 not text, 1 too large)",
		},
		{"many", many, maxDocuments, " (left out: all beyond the first 1000 files)"},
	} {
		l, _ := makeLibrary(t, test.files)
		got, err := l.survey(t.Context())
		if err != nil || got.documents != test.documents || got.without() != test.without {
			t.Errorf("%s: got %d documents%s, %v, want %d%s", test.name, got.documents, got.without(), err, test.documents, test.without)
		}
	}
}

func TestTools_Empty(t *testing.T) {
	l, _ := makeLibrary(t, nil)
	if got, want := callTool(t, l, toolList, `{}`), "There are no documents."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What the model is told of the tools.
func TestTools_Definitions(t *testing.T) {
	want := map[string]string{
		toolList: `{"properties":{},"type":"object"}`,
		toolSearch: `{"properties":{"query":{"type":"string",` +
			`"description":"The words to look for. Case and order do not matter."}},"required":["query"],"type":"object"}`,
		toolRead: `{"properties":{"first_line":{"type":"integer","description":"The first line to read, counted from 1. ` +
			`The default is 1."},"name":{"type":"string","description":"The name of the document as list_documents and ` +
			`search_documents give it."}},"required":["name"],"type":"object"}`,
	}
	for _, tool := range documentTools(openTestLibrary(t, "")) {
		got, err := json.Marshal(tool.InputSchema())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[tool.Name()], string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tool.Name(), diff)
		}
		if tool.Description() == "" {
			t.Errorf("%s has no description", tool.Name())
		}
	}
}
