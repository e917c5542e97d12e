// Package txn is what the transactions of all engines have in common: the checks of the contract of package kv, and
// the buffer that holds the writes of a transaction until its function returned.
package txn

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// CheckScope returns an error that wraps kv.ErrInvalid for a name that a scope cannot have.
func CheckScope(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("check scope: empty name: %w", kv.ErrInvalid)
	case len(name) > kv.MaxScopeBytes:
		return fmt.Errorf("check scope: name of %d bytes: %w", len(name), kv.ErrInvalid)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("check scope: zero byte in name: %w", kv.ErrInvalid)
	}
	return nil
}

// CheckKey returns an error that wraps kv.ErrInvalid or kv.ErrTooLarge for a key that cannot be stored.
func CheckKey(key []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("check key: empty: %w", kv.ErrInvalid)
	case len(key) > kv.MaxKeyBytes:
		return fmt.Errorf("check key: %d bytes: %w", len(key), kv.ErrTooLarge)
	}
	return nil
}

// Reader checks the use of a source, which is how an engine reads one scope. The source can rely on valid keys and a
// limit that is not negative, and may return kv.Stop from Scan as it is.
type Reader struct {
	source   kv.Reader
	scanning bool
	ended    bool
}

// NewReader returns a Reader of the source.
func NewReader(source kv.Reader) *Reader {
	return &Reader{source: source}
}

// End makes every later use of the reader fail: the function of the transaction returned.
func (r *Reader) End() { r.ended = true }

// Get implements kv.Reader.
func (r *Reader) Get(keys ...[]byte) ([][]byte, error) {
	if err := r.check(keys...); err != nil {
		return nil, err
	}
	return r.source.Get(keys...)
}

// Scan implements kv.Reader.
func (r *Reader) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	return r.scan(r.source.Scan, opts, fn)
}

func (r *Reader) scan(
	source func(kv.ScanOptions, func(key, value []byte) error) error,
	opts kv.ScanOptions, fn func(key, value []byte) error,
) error {
	if err := r.check(); err != nil {
		return err
	}
	if opts.Limit < 0 {
		return fmt.Errorf("scan: limit of %d: %w", opts.Limit, kv.ErrInvalid)
	}
	r.scanning = true
	defer func() { r.scanning = false }()
	if err := source(opts, fn); err != nil && !errors.Is(err, kv.Stop) {
		return err
	}
	return nil
}

func (r *Reader) check(keys ...[]byte) error {
	if r.ended {
		return fmt.Errorf("use transaction after its end: %w", kv.ErrInvalid)
	}
	if r.scanning {
		return fmt.Errorf("use transaction within a scan: %w", kv.ErrInvalid)
	}
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	return nil
}

// headroomBytes is how much a decorator may write of its own in a transaction.
const headroomBytes = 1 << 10

// Limits are those of one transaction.
type Limits struct {
	ValueBytes int // of one value
	Writes     int
	Bytes      int // of all keys and values
}

// NewLimits returns the limits of package kv, with headroom for a decorator that adds so many bytes to each value; 0 is
// none.
func NewLimits(overheadBytes int) Limits {
	l := Limits{ValueBytes: kv.MaxValueBytes, Writes: kv.MaxWrites, Bytes: kv.MaxTransactionBytes}
	if overheadBytes > 0 {
		l.ValueBytes += overheadBytes
		l.Writes++
		l.Bytes += l.Writes*overheadBytes + headroomBytes
	}
	return l
}

// Tx buffers writes over a source. Its reads see them.
type Tx struct {
	Reader
	limits Limits
	writes map[string][]byte // nil is a deletion; the map is nil until the first write
	order  []string          // the keys of writes; in byte order where sorted is true
	sorted bool
	count  int // Puts and Deletes
	bytes  int // of their keys and values
	err    error
}

// NewTx returns a transaction without writes.
func NewTx(source kv.Reader, limits Limits) *Tx {
	return &Tx{Reader: Reader{source: source}, limits: limits, sorted: true}
}

// usualWrites is as many as a transaction makes that changes a file.
const usualWrites = 8

// Err returns the first error of a Put or Delete. A transaction that has one must not be committed, even where its
// function returned nil: a part of what it meant to write is missing.
func (t *Tx) Err() error { return t.err }

// Size returns how many writes were made, and how many bytes their keys and values have.
func (t *Tx) Size() (writes, bytes int) { return t.count, t.bytes }

// Writes gives what to commit, in byte order of the keys. A nil value is a deletion. The bytes are the caller's.
func (t *Tx) Writes() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for _, key := range t.keys() {
			if !yield([]byte(key), t.writes[key]) {
				return
			}
		}
	}
}

// Put implements kv.Tx.
func (t *Tx) Put(key, value []byte) error {
	if err := t.admit(key, value); err != nil {
		return err
	}
	t.set(key, append(make([]byte, 0, len(value)), value...)) // Never nil, which would be a deletion.
	return nil
}

// Delete implements kv.Tx.
func (t *Tx) Delete(key []byte) error {
	if err := t.admit(key, nil); err != nil {
		return err
	}
	t.set(key, nil)
	return nil
}

// admit counts a write, or remembers why there is none.
func (t *Tx) admit(key, value []byte) error {
	if err := t.check(key); err != nil {
		return t.fail(err)
	}
	if len(value) > t.limits.ValueBytes {
		return t.fail(fmt.Errorf("put: value of %d bytes: %w", len(value), kv.ErrTooLarge))
	}
	if t.count+1 > t.limits.Writes {
		return t.fail(fmt.Errorf("write: more than %d writes: %w", t.limits.Writes, kv.ErrTooLarge))
	}
	if t.bytes+len(key)+len(value) > t.limits.Bytes {
		return t.fail(fmt.Errorf("write: more than %d bytes: %w", t.limits.Bytes, kv.ErrTooLarge))
	}
	t.count++
	t.bytes += len(key) + len(value)
	return nil
}

func (t *Tx) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

func (t *Tx) set(key, value []byte) {
	if _, ok := t.writes[string(key)]; ok {
		t.writes[string(key)] = value
		return
	}
	if t.writes == nil {
		t.writes, t.order = make(map[string][]byte, usualWrites), make([]string, 0, usualWrites)
	}
	name := string(key)
	t.writes[name] = value
	t.order = append(t.order, name)
	t.sorted = false
}

// keys returns the keys of the writes in byte order.
func (t *Tx) keys() []string {
	if !t.sorted {
		slices.Sort(t.order)
		t.sorted = true
	}
	return t.order
}

// Get implements kv.Reader. It asks the source once, for the keys that are not in the buffer.
func (t *Tx) Get(keys ...[]byte) ([][]byte, error) {
	if err := t.check(keys...); err != nil {
		return nil, err
	}
	if len(t.writes) == 0 {
		return t.source.Get(keys...)
	}
	values := make([][]byte, len(keys))
	var missing [][]byte
	var places []int // of missing in values
	for i, key := range keys {
		value, ok := t.writes[string(key)]
		if !ok {
			missing, places = append(missing, key), append(places, i)
		}
		values[i] = value
	}
	if len(missing) == 0 {
		return values, nil
	}
	below, err := t.source.Get(missing...)
	if err != nil {
		return nil, err
	}
	for i, value := range below {
		values[places[i]] = value
	}
	return values, nil
}

// Scan implements kv.Reader. It merges the buffer with a scan of the source.
func (t *Tx) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	return t.scan(t.merge, opts, fn)
}

func (t *Tx) merge(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	buffered := t.inRange(opts)
	if len(buffered) == 0 {
		return t.source.Scan(opts, fn)
	}
	left := opts.Limit
	visit := func(key, value []byte) error {
		if opts.KeysOnly {
			value = nil
		}
		if err := fn(key, value); err != nil {
			return err
		}
		if left--; left == 0 { // Where there is no limit it starts at zero and only goes down.
			return kv.Stop
		}
		return nil
	}
	// visitBuffered visits what is buffered up to a key; nil is the end.
	visitBuffered := func(key []byte) error {
		for len(buffered) > 0 && (key == nil || buffered[0] < string(key)) {
			next := buffered[0]
			buffered = buffered[1:]
			if value := t.writes[next]; value != nil {
				if err := visit([]byte(next), value); err != nil {
					return err
				}
			}
		}
		return nil
	}

	below := opts
	if below.Limit > 0 {
		below.Limit = max(0, below.Limit+len(buffered)) // Each hides at most one key; 0 is all, on an overflow too.
	}
	var ended error // what ended the scan early: the source may have turned kv.Stop into nil
	err := t.source.Scan(below, func(key, value []byte) error {
		if ended = visitBuffered(key); ended != nil {
			return ended
		}
		if len(buffered) > 0 && buffered[0] == string(key) {
			value = t.writes[buffered[0]]
			buffered = buffered[1:]
			if value == nil {
				return nil
			}
		}
		ended = visit(key, value)
		return ended
	})
	if err != nil || ended != nil {
		return err
	}
	return visitBuffered(nil)
}

// inRange returns the buffered keys that a scan visits, in byte order.
func (t *Tx) inRange(opts kv.ScanOptions) []string {
	if len(t.writes) == 0 {
		return nil
	}
	keys := t.keys()
	first, _ := slices.BinarySearch(keys, string(Start(opts)))
	keys = keys[first:]
	for i, key := range keys {
		if !strings.HasPrefix(key, string(opts.Prefix)) {
			return keys[:i]
		}
	}
	return keys
}

// Start returns the first key that a scan may visit. From there it visits keys as long as they have the prefix.
func Start(opts kv.ScanOptions) []byte {
	if bytes.Compare(opts.From, opts.Prefix) > 0 {
		return opts.From
	}
	return opts.Prefix
}
