package memory

import "fmt"

// Pin keeps a file from expiring, or lets it expire again. It is not a command of the memory tool; its texts are those
// of view. A directory is an *InvalidError.
//
// It is a change like any other, of what is known of the file: it raises the revision of the file, so that who follows
// revisions sees it, and the time of the change, so that a file that is let go has all of its time from then. What is
// sent with the revision before it as IfRevision is refused, and with IfSHA256, which is about the contents, is not.
type Pin struct {
	Path  string
	Unpin bool
}

// Name implements Command.
func (Pin) Name() string { return "pin" }

// Writes implements Command.
func (Pin) Writes() bool { return true }

func (c Pin) paths() ([2]string, int) { return [2]string{c.Path}, 1 }
func (c Pin) fields() []string        { return []string{c.Path, fmt.Sprint(c.Unpin)} }

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
