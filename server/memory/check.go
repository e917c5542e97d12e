package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Check reads the whole of a namespace and returns an error that wraps kv.ErrCorrupt and names the first thing that is
// wrong with it: an entry without a directory, totals that do not add up, or contents that are damaged, missing or
// nobody's.
func (m *Memory) Check(ctx context.Context, namespace string) error {
	return m.view(ctx, namespace, func(t *tree) error {
		if t.header.deleting {
			return nil
		}
		// Not subtree, which ends where a depth is empty.
		entries, err := t.scan(kv.ScanOptions{Prefix: []byte{entryPrefix}, From: levelPrefix(Path{}, 1)})
		if err != nil {
			return err
		}
		root := t.nodes[Root].node
		if root == nil {
			if len(entries) > 0 {
				return t.corrupt(Path{}, "has entries and no record")
			}
			root = &node{dir: true}
		}
		c := &checker{tree: t, totals: map[string]totals{}, contents: map[uint64]*node{}}
		// Deepest first, so that what is below a directory is known before the directory.
		for i := len(entries) - 1; i >= 0; i-- {
			n, err := entries[i].decode()
			if err != nil {
				return err
			}
			if err := c.check(keyPath(entries[i].key), n); err != nil {
				return err
			}
		}
		for _, dir := range slices.Sorted(maps.Keys(c.totals)) {
			if dir != Root {
				return fmt.Errorf("check %s: has entries and no record: %w", dir, kv.ErrCorrupt)
			}
		}
		if err := c.check(Path{}, root); err != nil {
			return err
		}
		return c.checkContents()
	}, Path{})
}

// checker collects what it has seen of a tree.
type checker struct {
	tree     *tree
	totals   map[string]totals // of what is below each directory
	contents map[uint64]*node  // files by id
}

func (t *tree) corrupt(p Path, what string) error {
	return fmt.Errorf("check %s: %s: %w", p, what, kv.ErrCorrupt)
}

// check checks an entry and counts it in its directory.
func (c *checker) check(p Path, n *node) error {
	if n.revision > c.tree.header.revision || n.id > c.tree.header.lastID {
		return c.tree.corrupt(p, "is newer than its namespace")
	}
	below := c.totals[p.String()]
	delete(c.totals, p.String())
	switch {
	case n.dir && below != totals{n.size, n.files, n.entries}:
		return c.tree.corrupt(p, "has totals that do not add up")
	case !n.dir && below != totals{}:
		return c.tree.corrupt(p, "is a file and has entries below it")
	case !n.dir:
		if _, err := c.tree.readFile(n); err != nil {
			return fmt.Errorf("check %s: %w", p, err)
		}
		c.contents[n.id] = n
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
		return fmt.Errorf("check contents: %x belongs to no file: %w", key, kv.ErrCorrupt)
	})
}
