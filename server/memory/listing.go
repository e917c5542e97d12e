package memory

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// viewDir shows a directory and what is in it, two levels deep.
func (t *tree) viewDir(p Path, n *node, r *Range) (Result, error) {
	entries, err := t.shown(p)
	if err != nil {
		return Result{}, err
	}
	text, page, f := viewEntries(n.entry(p), entries, r, *t.settings.ViewMaxChars)
	if f != nil {
		return Result{}, f
	}
	result := t.done(text, p, n)
	result.Entries = page
	return result, nil
}

// shown returns the entries that a listing of a directory shows, depth first.
func (t *tree) shown(p Path) ([]Entry, error) {
	children, err := t.below(p, p.depth()+1)
	if err != nil || len(children) == 0 {
		return nil, err
	}
	grandchildren, err := t.below(p, p.depth()+2)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(children)+len(grandchildren))
	show := func(r record) (hidden bool, err error) {
		path := keyPath(r.key)
		if hiddenName(path.names[path.depth()-1]) {
			return true, nil
		}
		n, err := r.decode()
		if err == nil {
			entries = append(entries, n.entry(path))
		}
		return false, err
	}
	// Both are in the byte order of their names, so the grandchildren of each child come together.
	for _, child := range children {
		hidden, err := show(child)
		if err != nil {
			return nil, err
		}
		below := levelPrefix(keyPath(child.key), p.depth()+2)
		for len(grandchildren) > 0 && strings.HasPrefix(string(grandchildren[0].key), string(below)) {
			if !hidden {
				if _, err := show(grandchildren[0]); err != nil {
					return nil, err
				}
			}
			grandchildren = grandchildren[1:]
		}
	}
	return entries, nil
}

// maxListingChars is the most that a listing shows at once, whatever the setting: with the entries beside the text, the
// response has to fit into one message.
const maxListingChars = 4 << 20

// viewEntries writes a listing, or a page of one that is longer than maxChars code points, 0 for no limit. It returns
// the entries of the page too.
func viewEntries(dir Entry, entries []Entry, r *Range, maxChars int64) (string, []Entry, *failure) {
	if maxChars == 0 || maxChars > maxListingChars {
		maxChars = maxListingChars
	}
	lines := make([]string, len(entries))
	chars := int64(len(lines) - 1) // the newlines between them
	for i, e := range entries {
		lines[i] = formatSize(e.Size) + "\t" + e.Path
		if e.Dir {
			lines[i] += "/"
		}
		chars += int64(utf8.RuneCountInString(lines[i]))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Here're the files and directories up to 2 levels deep in %s, "+
		"excluding hidden items and node_modules:\n%s\t%s", dir.Path, formatSize(dir.Size), dir.Path)

	n := int64(len(entries))
	s := span{1, n}
	paged := chars > maxChars
	if paged {
		var f *failure
		if s, f = selectSpan(r, n, "entry", "entries of the directory"); f != nil {
			return "", nil, f
		}
	}
	left := maxChars
	for i := s.first; i <= s.last; i++ {
		line := lines[i-1]
		left -= int64(utf8.RuneCountInString(line))
		if paged && left < 0 && i > s.first {
			fmt.Fprintf(&b, clipNote+"Entries %d to %d of %d are shown; use view_range [%d, %d] to see the rest.</NOTE>",
				"directory", s.first, i-1, n, i, s.end(n))
			return b.String(), entries[s.first-1 : i-1], nil
		}
		b.WriteString("\n" + line)
		left-- // the newline before the next
	}
	return b.String(), entries[s.first-1 : s.last], nil
}

// entriesAfter returns at most limit of the entries below a directory that come after one of them, or the directory
// itself, by depth and then by path.
func (t *tree) entriesAfter(dir, after Path, limit int) (entries []Entry, more bool, err error) {
	errMore := errors.New("more")
	from := append(entryKey(after), 0) // the first key after it
	for depth := max(after.depth(), dir.depth()+1); ; depth++ {
		empty := true
		opts := kv.ScanOptions{Prefix: levelPrefix(dir, depth), From: from}
		err := t.reader.Scan(opts, func(key, value []byte) error {
			empty = false
			if len(entries) == limit {
				return errMore
			}
			n, err := decodeNode(key, value)
			if err == nil {
				entries = append(entries, n.entry(keyPath(key)))
			}
			return err
		})
		if errors.Is(err, errMore) {
			return entries, true, nil
		}
		// A level may be empty after the entry and deeper ones not.
		if err != nil || empty && depth > after.depth() {
			return entries, false, err
		}
	}
}
