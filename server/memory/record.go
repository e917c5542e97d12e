package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Keys of a namespace; the package comment draws them.
const (
	readPrefix      = 'a'
	entryPrefix     = 'e'
	recordPrefix    = 'm'
	namespacePrefix = 'n'
	partPrefix      = 'o'
)

// recordVersion is the first byte of every record. Raise it when a record changes so that older code would misread it.
const recordVersion = 1

var namespaceKey = []byte{namespacePrefix}

// entryKey is the key of an entry.
func entryKey(p Path) []byte {
	size := 3 + p.depth()
	for _, name := range p.names {
		size += len(name)
	}
	return appendEntryKey(make([]byte, 0, size), p)
}

func appendEntryKey(key []byte, p Path) []byte {
	key = appendDepth(key, p.depth())
	for i, name := range p.names {
		if i > 0 {
			key = append(key, 0)
		}
		key = append(key, name...)
	}
	return key
}

// levelPrefix is the prefix of the keys of the entries that are below a directory and at a depth.
func levelPrefix(dir Path, depth int) []byte {
	key := entryKey(dir)
	binary.BigEndian.PutUint16(key[1:], uint16(depth)) // a path of 1,024 bytes is less than 512 deep
	if !dir.isRoot() {
		key = append(key, 0)
	}
	return key
}

func appendDepth(key []byte, depth int) []byte {
	return binary.BigEndian.AppendUint16(append(key, entryPrefix), uint16(depth))
}

// keyPath is the path of the entry that has a key.
func keyPath(key []byte) Path { return Path{strings.Split(string(key[3:]), "\x00")} }

// keyPathBytes is the length of the path of the entry that has a key, which is not that of /memories.
func keyPathBytes(key []byte) int { return len(Root) + 1 + len(key[3:]) }

// movedKey is the key of an entry below one path when that path has become another.
func movedKey(key []byte, from, to Path) []byte {
	old := keyPath(key)
	return entryKey(Path{slices.Concat(to.names, old.names[from.depth():])})
}

// contentKey is the key of a chunk of a file's contents.
func contentKey(id uint64, revision int64, chunk int) []byte {
	key := appendContentPrefix(make([]byte, 0, 21), id, revision)
	return binary.BigEndian.AppendUint32(key, uint32(chunk))
}

// appendContentPrefix appends what the keys of the contents of a file begin with.
func appendContentPrefix(key []byte, id uint64, revision int64) []byte {
	key = append(key, kv.BulkPrefix)
	key = binary.BigEndian.AppendUint64(key, id)
	return binary.BigEndian.AppendUint64(key, uint64(revision))
}

// header is the record of a namespace. The zero value is a namespace never written.
type header struct {
	revision int64
	lastID   uint64
	created  int64 // nanoseconds since 1970
	settings Settings
	swept    digest // of the recorded response that sweep has looked at last
	deleting bool   // the rest is being deleted: to readers there is nothing any more
}

// node is the record of an entry.
type node struct {
	dir      bool
	id       uint64
	created  int64 // nanoseconds since 1970
	modified int64 // nanoseconds since 1970
	revision int64
	size     int64

	// Of a file.
	pinned  bool // it does not expire
	lines   int64
	content int64 // the revision at which the contents were written
	sha256  [32]byte

	// Of a directory: what is below it, at any depth.
	files   int64
	entries int64
}

// Flags of records.
const (
	flagDir      = 1 << 0 // of a node
	flagPinned   = 1 << 1 // of a node
	flagDeleting = 1 << 0 // of a header
	flagSetting  = 1 << 1 // of a header: that it has the first of allSettings; the others follow
)

// castagnoli is the polynomial of CRC-32C, which processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the checksum of a key and its value. bbolt has none, and a bit that flips in a name would make another
// file of it.
func seal(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// unseal checks a value that was sealed and returns it without its checksum.
func unseal(key, sealed []byte) ([]byte, error) {
	const size = 4
	if n := len(sealed) - size; n >= 0 {
		value := sealed[:n:n]
		if checksum(key, value) == binary.BigEndian.Uint32(sealed[n:]) {
			return value, nil
		}
	}
	return nil, damaged(key, "its record differs from its checksum")
}

// DamagedError is an error that wraps kv.ErrCorrupt and names the path of what is damaged.
type DamagedError struct {
	// Namespace is where it is.
	Namespace string
	// Path is that of a file or directory, /memories where it is about the namespace itself.
	Path string
	// Text says what is wrong.
	Text string
}

// Error implements error.
func (e *DamagedError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.Path, e.Text) }

// Unwrap returns kv.ErrCorrupt.
func (e *DamagedError) Unwrap() error { return kv.ErrCorrupt }

// damaged is the error of a record.
func damaged(key []byte, text string) *DamagedError {
	path := Root
	if len(key) > 3 && key[0] == entryPrefix {
		path = keyPath(key).String()
	}
	return &DamagedError{Path: path, Text: text}
}

func (h *header) encode() []byte {
	var flags uint64
	if h.deleting {
		flags |= flagDeleting
	}
	for i, s := range allSettings {
		if s.present(&h.settings) {
			flags |= flagSetting << i
		}
	}
	b := binary.AppendUvarint([]byte{recordVersion}, flags)
	b = binary.AppendVarint(b, h.revision)
	b = binary.AppendUvarint(b, h.lastID)
	b = binary.AppendVarint(b, h.created)
	for _, s := range allSettings {
		if s.present(&h.settings) {
			b = s.append(b, &h.settings)
		}
	}
	if h.swept != (digest{}) {
		b = append(b, h.swept[:]...)
	}
	return seal(namespaceKey, b)
}

func decodeHeader(sealed []byte) (header, error) {
	b, err := unseal(namespaceKey, sealed)
	if err != nil {
		return header{}, err
	}
	d := decoder{rest: b}
	d.version()
	flags := d.uvarint()
	h := header{
		revision: d.varint(),
		lastID:   d.uvarint(),
		created:  d.varint(),
		deleting: flags&flagDeleting != 0,
	}
	if flags >= flagSetting {
		h.settings, d = decodeSettings(d, flags)
	}
	if len(d.rest) > 0 { // A header of the time before there were sweeps has none.
		h.swept = digest(d.bytes(len(h.swept)))
	}
	return h, d.finish(namespaceKey)
}

// decodeSettings takes the decoder by value: its functions move it to the heap, which only namespaces with settings of
// their own have to pay.
func decodeSettings(d decoder, flags uint64) (Settings, decoder) {
	var s Settings
	for i, setting := range allSettings {
		if flags&(flagSetting<<i) != 0 {
			setting.decode(&d, &s)
		}
	}
	return s, d
}

func (n *node) encode(key []byte) []byte {
	var flags byte
	if n.dir {
		flags |= flagDir
	}
	if n.pinned {
		flags |= flagPinned
	}
	b := make([]byte, 0, 80)
	b = append(b, recordVersion, flags)
	b = binary.AppendUvarint(b, n.id)
	b = binary.AppendVarint(b, n.created)
	b = binary.AppendVarint(b, n.modified)
	b = binary.AppendVarint(b, n.revision)
	b = binary.AppendVarint(b, n.size)
	if n.dir {
		b = binary.AppendVarint(b, n.files)
		b = binary.AppendVarint(b, n.entries)
	} else {
		b = binary.AppendVarint(b, n.lines)
		b = binary.AppendVarint(b, n.content)
		b = append(b, n.sha256[:]...)
	}
	return seal(key, b)
}

func decodeNode(key, sealed []byte) (*node, error) {
	n := new(node)
	if err := n.decode(key, sealed); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *node) decode(key, sealed []byte) error {
	b, err := unseal(key, sealed)
	if err != nil {
		return err
	}
	d := decoder{rest: b}
	d.version()
	flags := d.byte()
	*n = node{
		dir:      flags&flagDir != 0,
		pinned:   flags&flagPinned != 0,
		id:       d.uvarint(),
		created:  d.varint(),
		modified: d.varint(),
		revision: d.varint(),
		size:     d.varint(),
	}
	if n.dir {
		n.files = d.varint()
		n.entries = d.varint()
	} else {
		n.lines = d.varint()
		n.content = d.varint()
		copy(n.sha256[:], d.bytes(len(n.sha256)))
	}
	return d.finish(key)
}

// entry is what callers see of a node.
func (n *node) entry(p Path) Entry { return n.entryAt(p.String()) }

func (n *node) entryAt(path string) Entry {
	return Entry{
		Path:      path,
		Dir:       n.dir,
		Size:      n.size,
		Lines:     n.lines,
		SHA256:    n.sha256,
		Created:   instant(n.created),
		Modified:  instant(n.modified),
		Revision:  n.revision,
		FileCount: n.files,
		Pinned:    n.pinned,
	}
}

// instant is the time of a number of nanoseconds since 1970; 0 is the zero time.
func instant(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

// nanoseconds is the inverse of instant.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// chunks is how many chunks the contents of a file have.
func (n *node) chunks() int { return int((n.size + chunkBytes - 1) / chunkBytes) }

// decoder reads the fields of a record and remembers the first error.
type decoder struct {
	rest []byte
	err  error
}

var errShortRecord = errors.New("record is too short")

func (d *decoder) version() {
	if v := d.byte(); d.err == nil && v != recordVersion {
		d.err = fmt.Errorf("unknown version %d", v)
	}
}

func (d *decoder) bytes(n int) []byte {
	if len(d.rest) < n {
		d.fail()
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte { return d.bytes(1)[0] }

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

// skip passes over a number of n bytes; 0 or less says that it could not be read.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.fail()
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) fail() {
	d.rest = nil
	if d.err == nil {
		d.err = errShortRecord
	}
}

// finish returns the error of reading a record, of which nothing may be left.
func (d *decoder) finish(key []byte) error {
	if d.err == nil && len(d.rest) > 0 {
		d.err = errors.New("record is too long")
	}
	if d.err != nil {
		return damaged(key, d.err.Error())
	}
	return nil
}
