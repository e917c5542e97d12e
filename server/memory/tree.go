package memory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"sort"

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
	nodes    []loaded // in the order of their keys

	// Room that is used again; see reset.
	keys     [][]byte
	keyBytes []byte
	contents []byte
	text     []byte
	addChunk func(_, chunk []byte) error // to contents
}

// loaded is an entry as the transaction sees it; its node is nil where it does not exist.
type loaded struct {
	path   Path
	node   *node
	dirty  bool
	stored node // as it was read
}

// compare orders paths as the keys of their entries are.
func (p Path) compare(q Path) int {
	if c := cmp.Compare(p.depth(), q.depth()); c != 0 {
		return c
	}
	return slices.Compare(p.names, q.names)
}

// reset makes the tree one that has read nothing, and keeps the room that reading has taken, unless it was much.
func (t *tree) reset() {
	const most = 64 << 10 // bytes, of each
	clear(t.nodes)
	clear(t.keys)
	*t = tree{
		nodes: t.nodes[:0], keys: t.keys[:0], keyBytes: t.keyBytes[:0], contents: t.contents[:0], text: t.text[:0],
		addChunk: t.addChunk,
	}
	if cap(t.nodes) > most/256 {
		t.nodes, t.keys, t.keyBytes = nil, nil, nil
	}
	if max(cap(t.contents), cap(t.text)) > most {
		t.contents, t.text = nil, nil
	}
}

// read reads the namespace, the paths and all directories above them, and more keys, whose values it returns, all in
// one round trip.
func (t *tree) read(paths []Path, more ...[]byte) ([][]byte, error) {
	for _, p := range paths {
		for depth := range p.depth() + 1 {
			t.nodes = append(t.nodes, loaded{path: p.ancestor(depth)})
		}
	}
	if len(paths) > 1 {
		slices.SortFunc(t.nodes, func(a, b loaded) int { return a.path.compare(b.path) })
		t.nodes = slices.CompactFunc(t.nodes, func(a, b loaded) bool { return a.path.compare(b.path) == 0 })
	}
	t.keys = append(t.keys, namespaceKey)
	for i := range t.nodes {
		start := len(t.keyBytes)
		t.keyBytes = appendEntryKey(t.keyBytes, t.nodes[i].path)
		t.keys = append(t.keys, t.keyBytes[start:len(t.keyBytes):len(t.keyBytes)])
	}
	entries := len(t.keys)
	values, err := t.reader.Get(append(t.keys, more...)...)
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
	for i := range t.nodes {
		l := &t.nodes[i]
		if value := values[i+1]; value != nil {
			if err := l.stored.decode(t.keys[i+1], value); err != nil {
				return nil, err
			}
			l.node = &l.stored
		}
	}
	return values[entries:], nil
}

// find returns an entry that was read. Of one that was not, nobody may ask.
func (t *tree) find(p Path) *loaded {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].path.compare(p) >= 0 })
	if i == len(t.nodes) || t.nodes[i].path.compare(p) != 0 {
		panic("memory: asked for an entry that was not read")
	}
	return &t.nodes[i]
}

// get returns an entry that was read, nil where it does not exist. /memories always does.
func (t *tree) get(p Path) *node {
	n := t.find(p).node
	if n == nil && p.isRoot() {
		return &node{dir: true, created: t.header.created, modified: t.header.created}
	}
	return n
}

// set changes an entry that was read; nil removes it.
func (t *tree) set(p Path, n *node) {
	l := t.find(p)
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
		n := t.find(dir).node
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
	data, err := t.borrowFile(p, n)
	t.contents = nil
	return data, err
}

// borrowFile returns the contents of a file. They are lent until the next file is read, or the tree is reset.
func (t *tree) borrowFile(p Path, n *node) ([]byte, error) {
	start := len(t.keyBytes)
	t.keyBytes = appendContentPrefix(t.keyBytes, n.id, n.content)
	t.contents = slices.Grow(t.contents[:0], int(n.size))
	if t.addChunk == nil {
		t.addChunk = func(_, chunk []byte) error {
			t.contents = append(t.contents, chunk...)
			return nil
		}
	}
	err := t.reader.Scan(kv.ScanOptions{Prefix: t.keyBytes[start:]}, t.addChunk)
	if err == nil && sha256.Sum256(t.contents) != n.sha256 {
		err = &DamagedError{Path: p.String(), Text: "contents differ from their checksum"}
	}
	if err != nil {
		return nil, err
	}
	return t.contents, nil
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
	for i := range t.nodes {
		l := &t.nodes[i]
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
