package memory

import "fmt"

// Pin keeps a file from expiring, or lets it expire again. It is not a command of the memory tool; its texts are those
// of view. A directory is an *InvalidError.
type Pin struct {
	Path  string
	Unpin bool
}

// Name implements Command.
func (Pin) Name() string { return "pin" }

// Writes implements Command.
func (Pin) Writes() bool { return true }

func (c Pin) paths() []string  { return []string{c.Path} }
func (c Pin) fields() []string { return []string{c.Path, fmt.Sprint(c.Unpin)} }

func (c Pin) run(t *tree, paths []Path) (Result, error) {
	p := paths[0]
	n := t.get(p)
	switch {
	case n == nil:
		return Result{}, failViewMissing(c.Path)
	case n.dir:
		return Result{}, &InvalidError{Field: "path", Text: "path is a directory; only files are pinned"}
	}
	if n.pinned == c.Unpin {
		t.begin()
		changed := *n
		n = &changed
		n.pinned, n.revision, n.modified = !c.Unpin, t.header.revision, t.now
		t.set(p, n)
		t.grow(p, totals{})
	}
	result := t.done("", p, n)
	result.Content = nil
	return result, nil
}
