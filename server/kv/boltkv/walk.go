package boltkv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// walk goes through the pages of a database and returns what is wrong with the first that is damaged. It meets any
// damage with an error, whereas bbolt may then run in circles, ask for any amount of memory, or end the process: it
// walks in a goroutine of its own, where nobody can recover.
type walk struct {
	pages
	// all reads all pages. Otherwise it is those by which the others are found: branches, and the list of free pages.
	// That is a small part of them, and enough for bbolt not to run in circles.
	all bool
	// entries checks the form of keys and the sizes of values too.
	entries bool

	taken []uint64 // a bit for each page that was found to be used, or free
}

// checkTree walks through the pages that a transaction sees: all of them where there is no list of free pages, so that
// bbolt will do so, and else what a quick start has the time for.
func (s *Store) checkTree(ctx context.Context) error {
	tx, err := begin(s.db, false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.
	pages := s.pagesOf(tx)
	free, err := pages.freeList(tx.ID())
	if err == nil {
		w := walk{pages: pages, all: free == noFreeList}
		if w.all {
			s.log.Info("store was not closed cleanly, checking its pages", "dir", s.options.Dir, "bytes", tx.Size())
		}
		err = w.run(ctx, free)
	}
	if err != nil {
		return fmt.Errorf("%s is damaged: %w", s.path, err)
	}
	return nil
}

// run walks through the trees and the list of free pages.
func (w *walk) run(ctx context.Context, freeList uint64) error {
	w.taken = make([]uint64, w.count/64+1)
	if freeList != noFreeList {
		if err := w.takeFree(freeList); err != nil {
			return err
		}
	}
	root := treeWalk{walk: w, visit: func(n *node) error { return w.buckets(ctx, n) }}
	if err := root.subtree(ctx, w.root, 0, nil, nil); err != nil {
		return err
	}
	if !w.all || freeList == noFreeList {
		return nil
	}
	for id := uint64(2); id < w.count; id++ {
		if !w.isTaken(id) {
			return damage(id, "is neither used nor free")
		}
	}
	return nil
}

func (w *walk) isTaken(id uint64) bool { return w.taken[id/64]&(1<<(id%64)) != 0 }

// take marks pages, each of which must be marked once.
func (w *walk) take(id, n uint64) error {
	for ; n > 0; id, n = id+1, n-1 {
		if id < 2 || id >= w.count {
			return damage(id, "does not exist, the store has %d", w.count)
		}
		if w.isTaken(id) {
			return damage(id, "is used twice, or used and free")
		}
		w.taken[id/64] |= 1 << (id % 64)
	}
	return nil
}

// takeFree marks the pages of the list of free pages, and those that are in it.
func (w *walk) takeFree(id uint64) error {
	if id < 2 || id >= w.count {
		return damage(id, "does not exist, the store has %d", w.count)
	}
	b := make([]byte, headBytes+8)
	if err := w.readAt(b, id, 0); err != nil {
		return err
	}
	h, err := w.readHead(b, id)
	if err != nil {
		return err
	}
	if h.flags != flagFreeList {
		return damage(id, "has the type %#x, not that of a list of free pages", h.flags)
	}
	if err := w.take(id, h.pages); err != nil {
		return err
	}
	n, at := uint64(h.count), int64(headBytes)
	if n == longFreeList {
		n, at = binary.NativeEndian.Uint64(b[headBytes:]), at+8
	}
	room := int64(h.pages)*w.pageSize - at
	if n > uint64(room/8) {
		return damage(id, "has no room for a list of %d pages", n)
	}
	list := bufio.NewReader(io.NewSectionReader(w.file, int64(id)*w.pageSize+at, room))
	for range n {
		if _, err := io.ReadFull(list, b[:8]); err != nil {
			return damage(id, "%v", err)
		}
		if err := w.take(binary.NativeEndian.Uint64(b), 1); err != nil {
			return fmt.Errorf("list of free pages: %w", err)
		}
	}
	return nil
}

// buckets walks through the buckets of a leaf of the tree of buckets.
func (w *walk) buckets(ctx context.Context, n *node) error {
	for i := range n.count {
		name, err := n.key(i)
		if err != nil {
			return err
		}
		if w.entries && !bytes.Equal(name, bucketMeta) && !bytes.Equal(name, bucketBulk) {
			return damage(n.id, "bucket %q is unknown", name)
		}
		visit := func(n *node) error { return w.leaf(ctx, n, name) }
		root, inline, err := n.openBucket(i)
		switch {
		case err != nil:
			return err
		case inline != nil:
			if err := inline.checkOrder(n.id, nil, nil); err != nil {
				return err
			}
			err = visit(inline)
		default:
			bucket := treeWalk{walk: w, visit: visit}
			err = bucket.subtree(ctx, root, 0, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the entries of a leaf of a bucket.
func (w *walk) leaf(ctx context.Context, n *node, bucket []byte) error {
	for i := range n.count {
		e := n.element(i)
		key, err := n.key(i)
		if err != nil {
			return err
		}
		if e.bucket {
			return damage(n.id, "bucket %s: key %q: is a bucket", bucket, key)
		}
		if !w.entries {
			continue
		}
		if err := checkEntry(key, e.value, bytes.Equal(bucket, bucketBulk)); err != nil {
			return fmt.Errorf("page %d: bucket %s: key %q: %w: %w", n.id, bucket, key, err, kv.ErrCorrupt)
		}
	}
	return ctx.Err()
}

// treeWalk is the walk through one tree.
type treeWalk struct {
	*walk
	visit     func(leaf *node) error
	nodes     []*node // from the root to where it is
	leafLevel int     // how far leaves are from the root; 0 until one was found
}

// subtree walks through the subtree of a page, whose keys must be in [from, to); a nil one is no limit.
func (t *treeWalk) subtree(ctx context.Context, id uint64, level int, from, to []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if level == len(t.nodes) {
		t.nodes = append(t.nodes, &node{})
	}
	n := t.nodes[level]
	if err := t.read(id, n); err != nil {
		return err
	}
	if err := t.take(id, n.head.pages); err != nil { // Which ends circles too.
		return err
	}
	if err := n.checkOrder(id, from, to); err != nil {
		return err
	}
	if !n.branch() {
		t.leafLevel = level
		return t.visit(n)
	}
	for i := range n.count {
		child := n.element(i).child
		if !t.all && level+1 == t.leafLevel { // All leaves of a tree are on the same level.
			if err := t.take(child, 1); err != nil {
				return err
			}
			continue
		}
		first, err := n.key(i)
		if err != nil {
			return err
		}
		next := to
		if i+1 < n.count {
			if next, err = n.key(i + 1); err != nil {
				return err
			}
		}
		if err := t.subtree(ctx, child, level+1, first, next); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder checks that the keys ascend and are in [from, to).
func (n *node) checkOrder(id uint64, from, to []byte) error {
	last := from
	for i := range n.count {
		key, err := n.key(i)
		if err != nil {
			return err
		}
		if c := bytes.Compare(last, key); c > 0 || c == 0 && i > 0 || to != nil && bytes.Compare(key, to) >= 0 {
			return damage(id, "element %d is out of order", i)
		}
		last = key
	}
	return nil
}

// maxLevels is more than a tree has whose branches have two elements each.
const maxLevels = 64

// maxBranches is how many branches a path remembers, of up to a MiB each, though mostly of a page.
const maxBranches = 256

// path checks the pages that bbolt will change, before it does: it would make new pages of damaged ones. Those that
// were checked stay as they are for as long as the transaction runs, and are not read again.
type path struct {
	pages
	branches map[uint64]*node // that were checked, by their pages
	leaves   map[uint64]bool  // that were checked, by their pages; true where those beside were, too
	free     []*node          // to read into
}

// begin forgets what was read, but for the memory that took.
func (p *path) begin(pages pages) {
	p.pages = pages
	if p.branches == nil {
		p.branches, p.leaves = make(map[uint64]*node), make(map[uint64]bool)
	}
	for _, n := range p.branches {
		p.free = append(p.free, n)
	}
	p.forget()
}

func (p *path) forget() {
	clear(p.branches)
	clear(p.leaves)
}

// check checks the pages from a root to the leaf of a key. Where the key is to be deleted, the leaf may be merged with
// one beside it.
func (p *path) check(root uint64, key []byte, deleted bool) error {
	var parent *node
	at := 0
	id := root
	for range maxLevels {
		n, err := p.branch(id)
		if err != nil {
			return err
		}
		if n == nil {
			if !deleted || parent == nil || p.leaves[id] {
				return nil
			}
			p.leaves[id] = true
			return p.checkSiblings(parent, at)
		}
		if at, err = n.search(key); err != nil {
			return err
		}
		parent, id = n, n.element(at).child
	}
	return damage(id, "is in a circle")
}

// branch checks a page and returns it; nil where it is a leaf.
func (p *path) branch(id uint64) (*node, error) {
	if n := p.branches[id]; n != nil {
		return n, nil
	}
	if _, ok := p.leaves[id]; ok {
		return nil, nil
	}
	if len(p.free) == 0 {
		p.free = append(p.free, &node{})
	}
	last := len(p.free) - 1
	n := p.free[last]
	if err := p.read(id, n); err != nil {
		return nil, err
	}
	if !n.branch() {
		p.leaves[id] = false
		return nil, nil
	}
	if len(p.branches) == maxBranches {
		p.forget()
	}
	p.free = p.free[:last]
	p.branches[id] = n
	return n, nil
}

// checkSiblings checks the leaves beside one of a branch.
func (p *path) checkSiblings(parent *node, at int) error {
	for _, i := range []int{at - 1, at + 1} {
		if i < 0 || i >= parent.count {
			continue
		}
		if _, err := p.branch(parent.element(i).child); err != nil {
			return err
		}
	}
	return nil
}

// paths are a path for each bucket, and one to them. They belong to the committer.
type paths struct{ buckets, meta, bulk path }

func (p *paths) begin(pages pages) {
	p.buckets.begin(pages)
	p.meta.begin(pages)
	p.bulk.begin(pages)
}

// check checks the pages that a write to a bucket will change.
func (p *paths) check(bucket *bolt.Bucket, key, stored []byte, deleted bool) error {
	to, name := &p.meta, bucketMeta
	if isBulk(key) {
		to, name = &p.bulk, bucketBulk
	}
	if err := p.buckets.check(p.buckets.root, name, false); err != nil {
		return err
	}
	root := uint64(bucket.Root())
	if root == 0 { // Its page is in that which was just checked.
		return nil
	}
	return to.check(root, stored, deleted)
}
