package boltkv

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"sort"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// The format of bbolt, with numbers in the byte order of the machine. A page of a tree has a head, a table of elements,
// and then their keys and values without gaps. It takes as many pages as that needs.
const (
	headBytes    = 16 // id 8, flags 2, count of elements 2, count of pages that overflow from it 4
	elementBytes = 16 // branch: distance to the key 4, size of the key 4, page 8; leaf: flags, distance, sizes, each 4
	bucketBytes  = 16 // the value of a bucket: page 8, 0 where its only page follows in the value; sequence 8
	metaBytes    = 64 // after the head: 40, free list 8, count of pages 8, transaction 8; without the checksum 56

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreeList = 0x10
	flagBucket   = 0x01 // of an element

	noFreeList   = math.MaxUint64 // is where the free list is while a store is in use
	longFreeList = math.MaxUint16 // is the count of one that has its count in front of the first page
)

// pages are those of a database file as a transaction sees them. They are read from the file and checked, whereas bbolt
// trusts what is in its map of the file.
type pages struct {
	file     io.ReaderAt
	pageSize int64
	count    uint64 // the ids of the pages are below it
	root     uint64 // of the tree of buckets
}

// pagesOf returns the pages that a transaction sees, or saw when it began where it can write. They stay as they are
// until it ends.
func (s *Store) pagesOf(tx *bolt.Tx) pages {
	size := int64(s.db.Info().PageSize)
	return pages{
		file:     s.file,
		pageSize: size,
		count:    uint64(tx.Size() / size),
		root:     uint64(tx.Cursor().Bucket().Root()),
	}
}

// damage returns what is wrong with a page.
func damage(id uint64, format string, args ...any) error {
	return fmt.Errorf("page %d: %s: %w", id, fmt.Sprintf(format, args...), kv.ErrCorrupt)
}

// readAt fills b from a place in a page.
func (p *pages) readAt(b []byte, id uint64, at int64) error {
	if _, err := p.file.ReadAt(b, int64(id)*p.pageSize+at); err != nil {
		return damage(id, "%v", err)
	}
	return nil
}

// freeList returns the page of the list of free pages of a transaction, the last that wrote its meta page.
func (p *pages) freeList(transaction int) (uint64, error) {
	meta := make([]byte, metaBytes)
	for id := range uint64(2) { // Transactions use the two meta pages in turn.
		if err := p.readAt(meta, id, headBytes); err != nil {
			return 0, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56]) // Never fails.
		if sum.Sum64() == binary.NativeEndian.Uint64(meta[56:]) &&
			binary.NativeEndian.Uint64(meta[48:]) == uint64(transaction) {
			return binary.NativeEndian.Uint64(meta[32:]), nil
		}
	}
	return 0, fmt.Errorf("no meta page is of transaction %d: %w", transaction, kv.ErrCorrupt)
}

// head is what a page begins with.
type head struct {
	flags uint16
	count int
	pages uint64 // itself and those that overflow from it
}

func (p *pages) readHead(b []byte, id uint64) (head, error) {
	h := parseHead(b)
	if self := binary.NativeEndian.Uint64(b); self != id {
		return head{}, damage(id, "has the id %d", self)
	}
	if h.pages > p.count-id {
		return head{}, damage(id, "takes %d pages, which is beyond the last", h.pages)
	}
	return h, nil
}

func parseHead(b []byte) head {
	return head{
		flags: binary.NativeEndian.Uint16(b[8:]),
		count: int(binary.NativeEndian.Uint16(b[10:])),
		pages: 1 + uint64(binary.NativeEndian.Uint32(b[12:])),
	}
}

// node is a page of a tree that was read. The zero value is none.
type node struct {
	head
	id    uint64 // that of the page which it is in, where it is in the value of a bucket
	pages *pages
	data  []byte // its first bytes, the whole table of elements among them
	size  int64
}

// element is one of a node.
type element struct {
	at         int64 // where the key is, which the value follows
	key, value int64 // sizes
	bucket     bool
	child      uint64 // of a branch
}

// read reads a page of a tree.
func (p *pages) read(id uint64, n *node) (err error) {
	n.id, n.pages = 0, p
	if id < 2 || id >= p.count {
		return damage(id, "does not exist, the store has %d", p.count)
	}
	if int64(len(n.data)) < p.pageSize {
		n.data = make([]byte, p.pageSize)
	}
	if err := p.readAt(n.data[:p.pageSize], id, 0); err != nil {
		return err
	}
	if n.head, err = p.readHead(n.data, id); err != nil {
		return err
	}
	n.size = int64(n.head.pages) * p.pageSize
	if table := n.tableEnd(); table > int64(len(n.data)) && table <= n.size {
		n.data = make([]byte, table) // At most a MiB.
		if err := p.readAt(n.data, id, 0); err != nil {
			return err
		}
	}
	end, err := n.check(id)
	if err != nil {
		return err
	}
	if need := (end + p.pageSize - 1) / p.pageSize; need != int64(n.head.pages) {
		return damage(id, "takes %d pages for what needs %d", n.head.pages, need)
	}
	n.id = id
	return nil
}

func (n *node) branch() bool { return n.flags == flagBranch }

func (n *node) tableEnd() int64 { return headBytes + elementBytes*int64(n.count) }

// check checks that the elements lie one after the other within the node, and returns where they end.
func (n *node) check(id uint64) (end int64, err error) {
	if n.flags != flagBranch && n.flags != flagLeaf {
		return 0, damage(id, "has the type %#x, which is none of a tree", n.flags)
	}
	if n.branch() && n.count == 0 {
		return 0, damage(id, "is a branch without elements")
	}
	if end = n.tableEnd(); end > n.size {
		return 0, damage(id, "has no room for %d elements", n.count)
	}
	for i := range n.count {
		e := n.element(i)
		if e.at != end || e.key == 0 || e.key > bolt.MaxKeySize || e.key+e.value > n.size-end {
			return 0, damage(id, "element %d is at byte %d with a key of %d and a value of %d bytes, wanted it at %d of %d",
				i, e.at, e.key, e.value, end, n.size)
		}
		end += e.key + e.value
	}
	return end, nil
}

func (n *node) element(i int) element {
	at := headBytes + elementBytes*i
	field := func(i int) int64 { return int64(binary.NativeEndian.Uint32(n.data[at+4*i:])) }
	if n.branch() {
		return element{at: int64(at) + field(0), key: field(1), child: binary.NativeEndian.Uint64(n.data[at+8:])}
	}
	return element{at: int64(at) + field(1), key: field(2), value: field(3), bucket: field(0)&flagBucket != 0}
}

// bytes returns a part of a node, which is valid until another page is read into it.
func (n *node) bytes(at, size int64) ([]byte, error) {
	if at+size <= int64(len(n.data)) {
		return n.data[at : at+size], nil
	}
	b := make([]byte, size)
	return b, n.pages.readAt(b, n.id, at)
}

// key returns the key of an element, at most bolt.MaxKeySize bytes.
func (n *node) key(i int) ([]byte, error) {
	e := n.element(i)
	return n.bytes(e.at, e.key)
}

// openBucket returns the root page of the bucket that an element is; or its only page, where that is in the value.
func (n *node) openBucket(i int) (root uint64, inline *node, err error) {
	e := n.element(i)
	if !e.bucket || e.value < bucketBytes || e.value > bucketBytes+n.pages.pageSize {
		return 0, nil, damage(n.id, "element %d is no bucket", i)
	}
	value, err := n.bytes(e.at+e.key, e.value)
	if err != nil {
		return 0, nil, err
	}
	if root = binary.NativeEndian.Uint64(value); root != 0 {
		return root, nil, nil
	}
	if value = value[bucketBytes:]; len(value) < headBytes {
		return 0, nil, damage(n.id, "element %d is a bucket without a page", i)
	}
	inline = &node{id: n.id, head: parseHead(value), pages: n.pages, data: value, size: int64(len(value))}
	if end, err := inline.check(n.id); err != nil {
		return 0, nil, err
	} else if end != inline.size || inline.branch() {
		return 0, nil, damage(n.id, "element %d is a bucket with a wrong page", i)
	}
	return 0, inline, nil
}

// search returns the element of a branch below which a key is. It probes as bbolt does, and so finds the same one where
// the keys are out of order.
func (n *node) search(key []byte) (int, error) {
	var err error
	exact := false
	i := sort.Search(n.count, func(i int) bool {
		k, keyErr := n.key(i)
		if keyErr != nil {
			err = keyErr
		}
		exact = exact || string(k) == string(key)
		return string(k) >= string(key)
	})
	if !exact && i > 0 {
		i--
	}
	return i, err
}
