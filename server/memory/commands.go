package memory

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Command is one of View, Create, StrReplace, Insert, Delete, Rename and Put. Their paths are as requested.
type Command interface {
	// Name is the name that the memory tool has for the command.
	Name() string
	// Writes tells whether the command can change anything.
	Writes() bool

	// paths are the requested paths, in the order in which they are checked, and how many there are.
	paths() (paths [2]string, n int)
	// fields are all that tells the command from others of its name.
	fields() []string
	// run executes the command on a tree of which the parsed paths were read.
	run(t *tree, paths []Path) (Result, error)
}

// Paths returns the paths of a command as they were requested, that of the source before that of the destination.
func Paths(c Command) []string {
	paths, n := c.paths()
	return paths[:n]
}

// View shows a directory, a text file or an image.
type View struct {
	Path  string
	Range *Range // nil for the whole
}

// Range is a part of a file or listing: from the Start-th line or entry, counted from 1, to the End-th; -1 is the end.
type Range struct{ Start, End int64 }

// Create makes a text file.
type Create struct{ Path, FileText string }

// StrReplace replaces the one place where OldStr occurs. An empty NewStr deletes.
type StrReplace struct{ Path, OldStr, NewStr string }

// Insert puts lines after line InsertLine; 0 is the top.
type Insert struct {
	Path       string
	InsertLine int64
	InsertText string
}

// Delete removes a file, or a directory with everything below it.
type Delete struct{ Path string }

// Rename moves a file or directory.
type Rename struct{ OldPath, NewPath string }

// Put stores raw bytes as a file and replaces a file that is there, whatever the settings say. It is not a command of
// the memory tool; its texts are those of create.
type Put struct {
	Path string
	Data []byte
}

// Name implements Command.
func (View) Name() string { return "view" }

// Name implements Command.
func (Create) Name() string { return "create" }

// Name implements Command.
func (StrReplace) Name() string { return "str_replace" }

// Name implements Command.
func (Insert) Name() string { return "insert" }

// Name implements Command.
func (Delete) Name() string { return "delete" }

// Name implements Command.
func (Rename) Name() string { return "rename" }

// Name implements Command.
func (Put) Name() string { return "put" }

// Writes implements Command.
func (View) Writes() bool { return false }

// Writes implements Command.
func (Create) Writes() bool { return true }

// Writes implements Command.
func (StrReplace) Writes() bool { return true }

// Writes implements Command.
func (Insert) Writes() bool { return true }

// Writes implements Command.
func (Delete) Writes() bool { return true }

// Writes implements Command.
func (Rename) Writes() bool { return true }

// Writes implements Command.
func (Put) Writes() bool { return true }

func (c View) paths() ([2]string, int)       { return [2]string{c.Path}, 1 }
func (c Create) paths() ([2]string, int)     { return [2]string{c.Path}, 1 }
func (c StrReplace) paths() ([2]string, int) { return [2]string{c.Path}, 1 }
func (c Insert) paths() ([2]string, int)     { return [2]string{c.Path}, 1 }
func (c Delete) paths() ([2]string, int)     { return [2]string{c.Path}, 1 }
func (c Rename) paths() ([2]string, int)     { return [2]string{c.OldPath, c.NewPath}, 2 }
func (c Put) paths() ([2]string, int)        { return [2]string{c.Path}, 1 }

func (c View) fields() []string       { return []string{c.Path, fmt.Sprint(c.Range)} }
func (c Create) fields() []string     { return []string{c.Path, c.FileText} }
func (c StrReplace) fields() []string { return []string{c.Path, c.OldStr, c.NewStr} }
func (c Insert) fields() []string     { return []string{c.Path, fmt.Sprint(c.InsertLine), c.InsertText} }
func (c Delete) fields() []string     { return []string{c.Path} }
func (c Rename) fields() []string     { return []string{c.OldPath, c.NewPath} }
func (c Put) fields() []string        { return []string{c.Path, string(c.Data)} }

// maxStepWrites is the most writes that moving or deleting a directory may need. What is left of a transaction is for
// the namespace and the directories above: fewer than 512 above each of two paths.
const maxStepWrites = kv.MaxWrites - 1100

// done is the result of a command that succeeded.
func (t *tree) done(text string, p Path, n *node) Result { return t.doneAt(text, p.String(), n) }

func (t *tree) doneAt(text, path string, n *node) Result {
	parts := &struct { // of the result, in one piece of memory
		content [1]Block
		entry   Entry
	}{[1]Block{{Text: text}}, n.entryAt(path)}
	return Result{Content: parts.content[:1:1], Revision: t.header.revision, Entry: &parts.entry}
}

func failViewMissing(path string) *failure {
	return fail(ReasonViewPathNotFound, "The path %s does not exist. Please provide a valid path.", path)
}

func (c View) run(t *tree, paths []Path) (Result, error) {
	p := paths[0]
	n := t.get(p)
	switch {
	case n == nil:
		return Result{}, failViewMissing(c.Path)
	case n.dir:
		return t.viewDir(p, n, c.Range)
	}
	data, err := t.borrowFile(p, n)
	if err != nil {
		return Result{}, err
	}
	if isImageName(p.names[p.depth()-1]) {
		if mediaType := imageType(data); mediaType != "" {
			t.trace.view(p, n)
			result := t.done("", p, n)
			result.Content = []Block{{MediaType: mediaType, Data: slices.Clone(data)}}
			return result, nil
		}
	}
	if !utf8.Valid(data) {
		return Result{}, failNotUTF8(c.Path)
	}
	shown, f := viewText(t.text, c.Path, data, c.Range, *t.settings.ViewMaxChars)
	if f != nil {
		return Result{}, f
	}
	t.text = shown[:0]
	t.trace.view(p, n)
	return t.doneAt(string(shown), p.spelled(c.Path), n), nil
}

func (c Create) run(t *tree, paths []Path) (Result, error) {
	return t.create(paths[0], c.Path, c.FileText, *t.settings.CreateOnExisting == CreateOverwrite)
}

func (c Put) run(t *tree, paths []Path) (Result, error) {
	return t.create(paths[0], c.Path, string(c.Data), true)
}

// create makes a file of the requested path, or replaces one.
func (t *tree) create(p Path, requested, text string, overwrite bool) (Result, error) {
	old := t.get(p)
	if old != nil && (old.dir || !overwrite) {
		return Result{}, fail(ReasonCreatePathExists, "Error: File %s already exists", requested)
	}
	if t.parentIsFile(p) {
		return Result{}, failParentIsFile(requested)
	}
	if f := t.expect(old, requested); f != nil {
		return Result{}, f
	}
	return t.write(p, requested, old, newText(text), func(change) string {
		return "File created successfully at: " + requested
	})
}

// write sets the contents of a file if its size is allowed, and the namespace has room for it. A file that is too large
// already may shrink.
//
// A secret in the text may be masked; done says what the model reads, by what was written.
func (t *tree) write(p Path, requested string, old *node, c change, done func(change) string) (Result, error) {
	if f := t.checkWrite(p, requested, old, c); f != nil {
		return Result{}, f
	}
	masked, note, f := t.screen(p, c)
	if f == nil && len(masked.text) > len(c.text) {
		f = t.checkWrite(p, requested, old, masked)
	}
	if f != nil {
		return Result{}, f
	}
	t.begin()
	n, err := t.writeFile(p, []byte(masked.text))
	if err != nil {
		return Result{}, err
	}
	result := t.done(done(masked), p, n)
	if note != "" {
		result.Content = append(result.Content, Block{Text: note})
	}
	return result, nil
}

// checkWrite checks whether a file may have a text.
func (t *tree) checkWrite(p Path, requested string, old *node, c change) *failure {
	size := int64(len(c.text))
	if limit := *t.settings.MaxFileBytes; size > limit && (old == nil || size > old.size) {
		return failFileTooLarge(requested, limit)
	}
	more := size
	if old != nil {
		more -= old.size
	} else if f := t.checkFiles(p); f != nil {
		return f
	}
	return t.checkSize(more)
}

// readText reads a file that is to be edited.
func (t *tree) readText(p Path, n *node, requested string) (string, error) {
	data, err := t.readFile(p, n)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", failNotUTF8(requested)
	}
	return string(data), nil
}

func (c StrReplace) run(t *tree, paths []Path) (Result, error) {
	n := t.get(paths[0])
	if n == nil || n.dir {
		return Result{}, fail(ReasonStrReplacePathNotFound,
			"Error: The path %s does not exist. Please provide a valid path.", c.Path)
	}
	if c.OldStr == "" {
		return Result{}, fail(ReasonStrReplaceEmptyOldStr, "Error: The `old_str` parameter cannot be empty. "+
			"Consider using the `insert` command instead.")
	}
	if f := t.expect(n, c.Path); f != nil {
		return Result{}, f
	}
	text, err := t.readText(paths[0], n, c.Path)
	if err != nil {
		return Result{}, err
	}
	edited, f := replaceOnce(c.Path, text, c.OldStr, c.NewStr)
	if f != nil {
		return Result{}, f
	}
	result, err := t.write(paths[0], c.Path, n, edited, func(written change) string {
		return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
			written.snippet()
	})
	if viewed := t.call.ViewedSHA256; err == nil && viewed != nil && *viewed != n.sha256 {
		result.Content = append(result.Content, Block{Text: "Note: " + c.Path +
			" was changed by someone else since you viewed it; your change was made to the newer text"})
	}
	return result, err
}

func (c Insert) run(t *tree, paths []Path) (Result, error) {
	n := t.get(paths[0])
	if n == nil || n.dir {
		return Result{}, fail(ReasonInsertPathNotFound, "Error: The path %s does not exist", c.Path)
	}
	if f := t.expect(n, c.Path); f != nil {
		return Result{}, f
	}
	text, err := t.readText(paths[0], n, c.Path)
	if err != nil {
		return Result{}, err
	}
	edited, f := insertLines(text, c.InsertLine, c.InsertText)
	if f != nil {
		return Result{}, f
	}
	return t.write(paths[0], c.Path, n, edited, func(change) string {
		return "The file " + c.Path + " has been edited."
	})
}

func (c Delete) run(t *tree, paths []Path) (Result, error) {
	p := paths[0]
	if p.isRoot() {
		return Result{}, fail(ReasonDeleteRoot, "Error: Cannot delete the /memories directory itself")
	}
	n := t.get(p)
	if n == nil {
		return Result{}, fail(ReasonDeletePathNotFound, "Error: The path %s does not exist", c.Path)
	}
	if f := t.expect(n, c.Path); f != nil {
		return Result{}, f
	}
	// Every entry, when every file was viewed, and every chunk: a file has at most one that is not full.
	if writes := n.entries + 2*n.files + n.size/chunkBytes; n.dir && writes > maxStepWrites {
		return Result{}, failDirectoryTooLarge(c.Path, n.entries, n.entries*maxStepWrites/writes)
	}
	if err := t.remove(p, n); err != nil {
		return Result{}, err
	}
	return t.done("Successfully deleted "+c.Path, p, n), nil
}

// remove removes an entry with everything below it.
func (t *tree) remove(p Path, n *node) error {
	t.begin()
	if err := t.deleteTree(p, n); err != nil {
		return err
	}
	t.set(p, nil)
	t.grow(p, totals{}.minus(n.totals()))
	return nil
}

// deleteTree deletes what hangs on a file, or everything below a directory.
func (t *tree) deleteTree(p Path, n *node) error {
	if !n.dir {
		return t.deleteFile(n)
	}
	records, err := t.subtree(p)
	if err != nil {
		return err
	}
	for _, r := range records {
		n, err := r.decode()
		if err != nil {
			return err
		}
		if err := t.tx.Delete(r.key); err != nil {
			return err
		}
		if n.dir {
			continue
		}
		if err := t.deleteFile(n); err != nil {
			return err
		}
	}
	return nil
}

// deleteFile deletes what hangs on the id of a file.
func (t *tree) deleteFile(n *node) error {
	if err := t.deleteContents(n); err != nil {
		return err
	}
	return t.tx.Delete(readKey(n.id))
}

func (c Rename) run(t *tree, paths []Path) (Result, error) {
	from, to := paths[0], paths[1]
	n := t.get(from)
	switch {
	case from.isRoot():
		return Result{}, fail(ReasonRenameRoot, "Error: Cannot rename the /memories directory itself")
	case t.get(to) != nil:
		return Result{}, fail(ReasonRenameDestinationExists, "Error: The destination %s already exists", c.NewPath)
	case n == nil:
		return Result{}, fail(ReasonRenamePathNotFound, "Error: The path %s does not exist", c.OldPath)
	case n.dir && from.contains(to):
		return Result{}, fail(ReasonRenameIntoItself,
			"Error: Cannot rename %s to %s: the destination is inside the source", c.OldPath, c.NewPath)
	case t.parentIsFile(to):
		return Result{}, failParentIsFile(c.NewPath)
	case n.dir && 2*n.entries > maxStepWrites:
		return Result{}, failDirectoryTooLarge(c.OldPath, n.entries, maxStepWrites/2)
	}
	if f := t.expect(n, c.OldPath); f != nil {
		return Result{}, f
	}
	if n.dir {
		if err := t.moveBelow(from, to); err != nil {
			return Result{}, err
		}
	}
	if f := t.checkDirectories(to); f != nil {
		return Result{}, f
	}
	t.begin()
	moved := *n
	moved.revision, moved.modified = t.header.revision, t.now
	t.set(from, nil)
	t.grow(from, totals{}.minus(n.totals()))
	t.set(to, &moved)
	t.grow(to, moved.totals())
	return t.done("Successfully renamed "+c.OldPath+" to "+c.NewPath, to, &moved), nil
}

// moveBelow moves the entries below a directory. Their contents stay where they are.
func (t *tree) moveBelow(from, to Path) error {
	records, err := t.subtree(from)
	if err != nil {
		return err
	}
	for _, r := range records {
		key := movedKey(r.key, from, to)
		if keyPathBytes(key) > MaxPathBytes {
			return failPathTooLong()
		}
		value, err := unseal(r.key, r.value)
		if err != nil {
			return err
		}
		if err := t.tx.Delete(r.key); err != nil {
			return err
		}
		if err := t.tx.Put(key, seal(key, value)); err != nil {
			return err
		}
	}
	return nil
}
