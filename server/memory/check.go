package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// maxProblems is how many problems Check names.
const maxProblems = 100

// Check reads the whole of a namespace and returns what is wrong with it, joined errors that wrap kv.ErrCorrupt and
// name what they are about: an entry without a directory, totals that do not add up, records or contents that are
// damaged, contents that are nobody's. Where records are damaged, it is only these, since the rest follows from them.
func (m *Memory) Check(ctx context.Context, namespace string) error {
	return m.view(ctx, namespace, func(t *tree) error {
		if t.header.deleting {
			return nil
		}
		c := &checker{tree: t, totals: map[string]totals{}, contents: map[uint64]*node{}}
		if err := c.checkEntries(); err != nil {
			return err
		}
		if err := c.checkContents(); err != nil {
			return err
		}
		if err := c.checkReads(); err != nil {
			return err
		}
		return errors.Join(c.problems...)
	}, Path{})
}

// checker collects what it has seen of a tree.
type checker struct {
	tree     *tree
	totals   map[string]totals // of what is below each directory
	contents map[uint64]*node  // files by id
	problems []error
}

func (c *checker) problem(p Path, text string) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, &DamagedError{Path: p.String(), Text: text})
	}
}

// checkEntries checks every entry.
func (c *checker) checkEntries() error {
	// Not subtree, which ends where a depth is empty.
	opts := kv.ScanOptions{Prefix: []byte{entryPrefix}, From: levelPrefix(Path{}, 1)}
	entries, err := c.tree.scan(opts)
	if err != nil {
		return err
	}
	nodes := make([]*node, len(entries))
	for i, e := range entries {
		if nodes[i], err = e.decode(); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	if len(c.problems) > 0 {
		return errors.Join(c.problems[:min(len(c.problems), maxProblems)]...)
	}
	root := c.tree.find(Path{}).node
	if root == nil {
		if len(entries) > 0 {
			c.problem(Path{}, "it has entries and no record")
		}
		root = &node{dir: true}
	}
	// Deepest first, so that what is below a directory is known before the directory.
	for i := len(entries) - 1; i >= 0; i-- {
		if err := c.check(keyPath(entries[i].key), nodes[i]); err != nil {
			return err
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(c.totals)) {
		if dir != Root {
			c.problems = append(c.problems, &DamagedError{Path: dir, Text: "it has entries and no record"})
		}
	}
	return c.check(Path{}, root)
}

// check checks an entry and counts it in its directory.
func (c *checker) check(p Path, n *node) error {
	if n.revision > c.tree.header.revision || n.id > c.tree.header.lastID {
		c.problem(p, "it is newer than its namespace")
	}
	below := c.totals[p.String()]
	delete(c.totals, p.String())
	switch {
	case n.dir && below != totals{n.size, n.files, n.entries}:
		c.problem(p, "its totals do not add up")
	case !n.dir && below != totals{}:
		c.problem(p, "it is a file and has entries below it")
	}
	if !n.dir {
		c.contents[n.id] = n
		var damaged *DamagedError
		if _, err := c.tree.readFile(p, n); errors.As(err, &damaged) {
			c.problem(p, damaged.Text)
		} else if err != nil {
			return err
		}
	}
	if p.isRoot() {
		return nil
	}
	dir := p.ancestor(p.depth() - 1).String()
	sum, own := c.totals[dir], n.totals()
	c.totals[dir] = totals{sum.size + own.size, sum.files + own.files, sum.entries + own.entries}
	return nil
}

// checkContents checks that all contents are those of a file.
func (c *checker) checkContents() error {
	opts := kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}, KeysOnly: true}
	return c.tree.reader.Scan(opts, func(key, _ []byte) error {
		if len(key) == len(contentKey(0, 0, 0)) {
			id := binary.BigEndian.Uint64(key[1:])
			revision := int64(binary.BigEndian.Uint64(key[9:]))
			chunk := int(binary.BigEndian.Uint32(key[17:]))
			if n := c.contents[id]; n != nil && n.content == revision && chunk < n.chunks() {
				return nil
			}
		}
		c.problem(Path{}, fmt.Sprintf("contents %x are those of no file", key))
		return nil
	})
}

// checkReads checks the records of when files were viewed. One of no file is fine: versions that know of none leave it
// when they delete the file, and it costs a few bytes.
func (c *checker) checkReads() error {
	records, err := c.tree.scan(kv.ScanOptions{Prefix: []byte{readPrefix}})
	if err != nil {
		return err
	}
	for _, r := range records {
		if _, err := decodeRead(r.key, r.value); err != nil {
			c.problem(Path{}, fmt.Sprintf("the record %x of when a file was viewed differs from its checksum", r.key))
		}
	}
	return nil
}
