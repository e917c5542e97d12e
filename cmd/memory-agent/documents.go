package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDocumentBytes is the most that a document may have to be read and searched.
	maxDocumentBytes = 1 << 20
	// maxDocuments is how many documents are seen; those beyond it, in the order of their names, are not.
	maxDocuments = 1000
	// documentLimits says the same to people.
	documentLimits = "Documents are text files in UTF-8 of up to 1 MiB; hidden files and symbolic links are left out"
)

//go:embed documents/*.md
var embedded embed.FS

// library is the documents that the agent may read: the regular files of one directory and those below it. Hidden
// files, symbolic links, and names with control characters are left out.
type library struct {
	files fs.FS
	close func() error
}

// openLibrary opens the documents of a directory; "" are those that are built in. Whatever name the model asks for, an
// os.Root keeps it inside of the directory.
func openLibrary(dir string) (*library, error) {
	if dir == "" {
		files, err := fs.Sub(embedded, "documents")
		return &library{files: files, close: func() error { return nil }}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &library{files: root.FS(), close: root.Close}, nil
}

// document is one file of the library.
type document struct {
	name  string // with slashes, relative to the directory
	bytes int64
}

// list returns the documents in the order of their names, and whether there are more than maxDocuments.
func (l *library) list() (found []document, more bool, err error) {
	err = fs.WalkDir(l.files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil: // a directory that cannot be read
			return fs.SkipDir
		case strings.HasPrefix(path.Base(name), ".") && name != ".":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || strings.ContainsFunc(name, unicode.IsControl):
			return nil
		case len(found) == maxDocuments:
			more = true
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it was removed since
		}
		found = append(found, document{name: name, bytes: info.Size()})
		return nil
	})
	if err != nil {
		return nil, false, errors.New("the documents cannot be listed")
	}
	return found, more, nil
}

// survey is what there is in a library.
type survey struct {
	documents int
	leftOut   map[string]int // how many files are no documents, by why
	more      bool           // there are more files than maxDocuments
}

// survey looks at all documents.
func (l *library) survey(ctx context.Context) (survey, error) {
	files, more, err := l.list()
	s := survey{leftOut: map[string]int{}, more: more}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return survey{}, err
		}
		if _, err := l.read(f.name); err == nil {
			s.documents++
		} else if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
			s.leftOut[unfit.why]++
		}
	}
	return s, err
}

// without says what was left out, in brackets, or nothing.
func (s survey) without() string {
	var parts []string
	all := 0
	for _, why := range slices.Sorted(maps.Keys(s.leftOut)) {
		all += s.leftOut[why]
		parts = append(parts, fmt.Sprintf("%d %s", s.leftOut[why], why))
	}
	if s.more {
		parts = append(parts, fmt.Sprintf("all beyond the first %d files", maxDocuments))
	}
	switch {
	case len(parts) == 0:
		return ""
	case s.more:
		return " (left out: " + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprintf(" (%d left out: %s)", all, strings.Join(parts, ", "))
}

// unfitError is the error of a file that is no document.
type unfitError struct {
	why  string // in a word or two
	text string // for the model
}

func (e *unfitError) Error() string { return e.text }

// read returns the lines of a document. Its errors tell the model what to do instead, and nothing about the machine.
func (l *library) read(name string) ([]string, error) {
	clean := path.Clean(strings.TrimSpace(name)) // "." for an empty one
	info, err := fs.Stat(l.files, clean)
	unfit := func(why, format string, args ...any) error { return &unfitError{why, fmt.Sprintf(format, args...)} }
	switch {
	case strings.TrimSpace(name) == "":
		return nil, errors.New("the name is missing. Send the name of a document as list_documents gives it")
	case err != nil:
		return nil, fmt.Errorf("there is no document %q. Use a name as list_documents gives it", name)
	case info.IsDir():
		return nil, fmt.Errorf("%q is a directory. Use the name of a document as list_documents gives it", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a document. Use a name as list_documents gives it", name)
	}
	tooLarge := unfit("too large", "%q is larger than %d bytes, which is the most that can be read. "+
		"Use the other documents, and say in your answer that this one was not read", name, maxDocumentBytes)
	if info.Size() > maxDocumentBytes {
		return nil, tooLarge
	}
	file, err := l.files.Open(clean)
	if err != nil {
		return nil, unfit("not readable", "%q cannot be opened. Use the other documents", name)
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxDocumentBytes+1))
	switch {
	case err != nil:
		return nil, unfit("not readable", "%q cannot be read. Use the other documents", name)
	case len(content) > maxDocumentBytes: // it grew
		return nil, tooLarge
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return nil, unfit("not text", "%q is not a text. Use the other documents", name)
	}
	text := strings.ReplaceAll(string(content), "\r\n", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// hit is a document in which words were found.
type hit struct {
	document string
	words    int    // how many of the words
	lines    int    // how many lines have any of them
	best     []line // at most maxHitLines
}

// line is a line of a document.
type line struct {
	number int // from 1
	text   string
	words  int // how many of the words that are looked for
}

// search returns the documents that have any of the words, those with the most of them first and then those with the
// most lines of them. Documents that cannot be read are passed over.
func (l *library) search(ctx context.Context, words []string) ([]hit, error) {
	documents, _, err := l.list()
	if err != nil {
		return nil, err
	}
	var hits []hit
	for _, d := range documents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := l.read(d.name)
		if err != nil {
			continue
		}
		if h := find(words, text); h.words > 0 {
			h.document = d.name
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(b.words-a.words, b.lines-a.lines)
	})
	return hits, nil
}

// find looks for words in the lines of a document.
func find(words, text []string) hit {
	found := map[string]bool{} // whether a word was found
	for _, w := range words {
		found[w] = false
	}
	different := 0
	var lines []line
	for i, s := range text {
		n := 0
		for _, w := range wordsOf(s) {
			before, wanted := found[w]
			if !wanted {
				continue
			}
			n++
			if !before {
				found[w] = true
				different++
			}
		}
		if n > 0 {
			lines = append(lines, line{number: i + 1, text: s, words: n})
		}
	}
	return hit{words: different, lines: len(lines), best: bestLines(lines, maxHitLines)}
}

// bestLines returns the n lines with the most words, in the order of the document.
func bestLines(lines []line, n int) []line {
	best := slices.Clone(lines)
	slices.SortStableFunc(best, func(a, b line) int { return b.words - a.words })
	best = best[:min(n, len(best))]
	slices.SortFunc(best, func(a, b line) int { return a.number - b.number })
	for i := range best {
		best[i].text = strings.Clone(best[i].text) // lest it keeps the whole document
	}
	return slices.Clone(best)
}

// wordsOf returns the different words of a text, in their order, in lower case and in the singular, as far as that is
// easily told.
func wordsOf(text string) []string {
	var words []string
	seen := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}) {
		if stem, ok := strings.CutSuffix(w, "ies"); ok && len(w) > 4 {
			w = stem + "y"
		} else if len(w) > 3 && !strings.HasSuffix(w, "ss") {
			w = strings.TrimSuffix(w, "s")
		}
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return words
}
