package memory

import (
	"bytes"
	"crypto/sha256"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// chunkBytes is the size of a chunk of a file's contents. A leaf page of bbolt holds at least two keys, so larger
// chunks would make an edit of a large file write more.
const chunkBytes = 64 << 10

// tree is the tree of one namespace in one transaction. Entries are read once, changed in memory, and written by
// flush, so that a directory above several changes is written once.
type tree struct {
	reader   kv.Reader
	tx       kv.Tx // nil in a View
	now      int64 // nanoseconds since 1970
	header   header
	settings Settings // in force; no field is nil
	call     Call     // of the command that runs
	trace    *trace   // nil where nothing is to be remembered
	changed  bool     // there is something to flush
	nodes    map[string]*loaded
	order    []*loaded // as they were read, so that the transaction writes in the same order each time it runs
}

// loaded is an entry as the transaction sees it; its node is nil where it does not exist.
type loaded struct {
	path  Path
	node  *node
	dirty bool
}

// read reads the namespace, the paths and all directories above them, and more keys, whose values it returns, all in
// one round trip.
func (t *tree) read(paths []Path, more ...[]byte) ([][]byte, error) {
	t.nodes = make(map[string]*loaded)
	keys := [][]byte{namespaceKey}
	for _, p := range paths {
		for depth := range p.depth() + 1 {
			l := &loaded{path: p.ancestor(depth)}
			if name := l.path.String(); t.nodes[name] == nil {
				t.nodes[name] = l
				t.order = append(t.order, l)
				keys = append(keys, entryKey(l.path))
			}
		}
	}
	entries := len(keys)
	values, err := t.reader.Get(append(keys, more...)...)
	if err != nil {
		return nil, err
	}
	if values[0] != nil {
		if t.header, err = decodeHeader(values[0]); err != nil {
			return nil, err
		}
	}
	if t.header.deleting {
		t.header = header{deleting: true}
		return make([][]byte, len(more)), nil
	}
	for i, l := range t.order {
		if value := values[i+1]; value != nil {
			if l.node, err = decodeNode(keys[i+1], value); err != nil {
				return nil, err
			}
		}
	}
	return values[entries:], nil
}

// get returns an entry that was read, nil where it does not exist. /memories always does.
func (t *tree) get(p Path) *node {
	n := t.nodes[p.String()].node
	if n == nil && p.isRoot() {
		return &node{dir: true, created: t.header.created, modified: t.header.created}
	}
	return n
}

// set changes an entry that was read; nil removes it.
func (t *tree) set(p Path, n *node) {
	l := t.nodes[p.String()]
	l.node, l.dirty = n, true
}

// parentIsFile tells whether a directory above a path is a file.
func (t *tree) parentIsFile(p Path) bool {
	for depth := range p.depth() {
		if n := t.get(p.ancestor(depth)); n != nil && !n.dir {
			return true
		}
	}
	return false
}

// begin starts a change: it raises the revision of the namespace.
func (t *tree) begin() {
	if t.header.revision == 0 {
		t.header.created = t.now
	}
	t.header.revision++
	t.changed = true
}

func (t *tree) newID() uint64 {
	t.header.lastID++
	return t.header.lastID
}

// totals are what an entry counts for in the directories above it.
type totals struct{ size, files, entries int64 }

// totals counts the entry itself and what is below it; nothing for nil.
func (n *node) totals() totals {
	switch {
	case n == nil:
		return totals{}
	case n.dir:
		return totals{n.size, n.files, n.entries + 1}
	}
	return totals{n.size, 1, 1}
}

func (a totals) minus(b totals) totals {
	return totals{a.size - b.size, a.files - b.files, a.entries - b.entries}
}

// grow adds to the directories above a path, and makes those that do not exist.
func (t *tree) grow(p Path, delta totals) {
	for depth := p.depth() - 1; depth >= 0; depth-- {
		dir := p.ancestor(depth)
		n := t.nodes[dir.String()].node
		missing := n == nil
		if missing {
			n = &node{dir: true, id: t.newID(), created: t.now}
		}
		n.size += delta.size
		n.files += delta.files
		n.entries += delta.entries
		n.modified, n.revision = t.now, t.header.revision
		t.set(dir, n)
		if missing {
			delta.entries++
		}
	}
}

// writeFile sets the contents of a file, a new one or one that was read.
func (t *tree) writeFile(p Path, data []byte) (*node, error) {
	old := t.get(p)
	n := &node{created: t.now}
	if old == nil {
		n.id = t.newID()
	} else {
		n.id, n.created, n.pinned = old.id, old.created, old.pinned
		if err := t.deleteContents(old); err != nil {
			return nil, err
		}
	}
	n.modified, n.revision, n.content = t.now, t.header.revision, t.header.revision
	n.size, n.lines, n.sha256 = int64(len(data)), int64(bytes.Count(data, []byte{'\n'}))+1, sha256.Sum256(data)
	for i := range n.chunks() {
		chunk := data[i*chunkBytes : min((i+1)*chunkBytes, len(data))]
		if err := t.tx.Put(contentKey(n.id, n.content, i), chunk); err != nil {
			return nil, err
		}
	}
	t.set(p, n)
	t.grow(p, n.totals().minus(old.totals()))
	return n, nil
}

// readFile returns the contents of a file, which the caller may keep.
func (t *tree) readFile(p Path, n *node) ([]byte, error) {
	data := make([]byte, 0, n.size)
	err := t.reader.Scan(kv.ScanOptions{Prefix: contentPrefix(n.id, n.content)}, func(_, chunk []byte) error {
		data = append(data, chunk...)
		return nil
	})
	if err == nil && sha256.Sum256(data) != n.sha256 {
		err = &DamagedError{Path: p.String(), Text: "contents differ from their checksum"}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (t *tree) deleteContents(n *node) error {
	for i := range n.chunks() {
		if err := t.tx.Delete(contentKey(n.id, n.content, i)); err != nil {
			return err
		}
	}
	return nil
}

// record is a key of an entry with its value.
type record struct{ key, value []byte }

func (r record) decode() (*node, error) { return decodeNode(r.key, r.value) }

// below reads the records of all entries below a directory that are at a depth.
func (t *tree) below(dir Path, depth int) ([]record, error) {
	return t.scan(kv.ScanOptions{Prefix: levelPrefix(dir, depth)})
}

func (t *tree) scan(opts kv.ScanOptions) ([]record, error) {
	var records []record
	err := t.reader.Scan(opts, func(key, value []byte) error {
		records = append(records, record{key, value})
		return nil
	})
	return records, err
}

// subtree reads the records of all entries below a directory: one scan a depth until one is empty.
func (t *tree) subtree(dir Path) ([]record, error) {
	var records []record
	for depth := dir.depth() + 1; ; depth++ {
		level, err := t.below(dir, depth)
		if err != nil {
			return nil, err
		}
		if len(level) == 0 {
			return records, nil
		}
		records = append(records, level...)
	}
}

// flush writes the namespace and the entries that were changed.
func (t *tree) flush() error {
	if err := t.tx.Put(namespaceKey, t.header.encode()); err != nil {
		return err
	}
	for _, l := range t.order {
		if !l.dirty {
			continue
		}
		key := entryKey(l.path)
		var err error
		if l.node == nil {
			err = t.tx.Delete(key)
		} else {
			err = t.tx.Put(key, l.node.encode(key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
