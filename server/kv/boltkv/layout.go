package boltkv

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

var (
	bucketMeta = []byte("meta")
	bucketBulk = []byte("bulk")
	keySchema  = storedKey(kv.ReservedScope, []byte("boltkv.schema"))
)

// storedKey returns the key that holds a key of a scope.
func storedKey(scope string, key []byte) []byte {
	return appendStoredKey(make([]byte, 0, len(scope)+1+len(key)), scope, key)
}

func appendStoredKey(stored []byte, scope string, key []byte) []byte {
	stored = append(stored, scope...)
	stored = append(stored, 0)
	return append(stored, key...)
}

func isBulk(key []byte) bool { return len(key) > 0 && key[0] == kv.BulkPrefix }

// schema returns the schema version of the database, 0 where it is new.
func (s *Store) schema() (version int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer s.recovered(&err)
	err = s.db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if first, _ := tx.Cursor().First(); first == nil {
			return nil
		} else if meta == nil || tx.Bucket(bucketBulk) == nil {
			return fmt.Errorf("%s is a database of bbolt but not of memoryd", s.path)
		}
		text := string(meta.Get(keySchema))
		if version, err = strconv.Atoi(text); err != nil || version < 1 {
			return fmt.Errorf("%s has the schema version %q: %w", s.path, text, kv.ErrCorrupt)
		}
		if latest := s.latestVersion(); version > latest {
			return fmt.Errorf("%s has schema version %d; this memoryd reads up to %d; use a newer memoryd",
				s.path, version, latest)
		}
		return nil
	})
	return version, err
}

func (s *Store) createSchema() error {
	return s.db.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucket(bucketBulk); err != nil {
			return err
		}
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		return putVersion(meta, s.latestVersion())
	})
}

func putVersion(meta *bolt.Bucket, version int) error {
	return meta.Put(keySchema, []byte(strconv.Itoa(version)))
}

// snapshot is one scope in a transaction of bbolt. It is for one goroutine at a time.
type snapshot struct {
	store      *Store
	meta, bulk *bolt.Bucket
	scope      string

	// What reading needs again and again.
	metaCursor, bulkCursor *bolt.Cursor // nil where there was no need yet
	key, prefix            []byte       // of the last Get or Scan, as they are stored
	values                 [][]byte     // that Get has returned
}

func (s *Store) newSnapshot(tx *bolt.Tx, scope string) (_ *snapshot, err error) {
	defer s.recovered(&err)
	meta, bulk := tx.Bucket(bucketMeta), tx.Bucket(bucketBulk)
	if meta == nil || bulk == nil {
		return nil, fmt.Errorf("find buckets: %w", kv.ErrCorrupt)
	}
	bulk.FillPercent = 1 // Contents are written once, by ascending id, so that pages need no room for more.
	return &snapshot{store: s, meta: meta, bulk: bulk, scope: scope}, nil
}

func (s *snapshot) bucket(bulk bool) *bolt.Bucket {
	if bulk {
		return s.bulk
	}
	return s.meta
}

// cursor returns a cursor of one of the buckets, which is the same every time.
func (s *snapshot) cursor(bulk bool) cursor {
	c := &s.metaCursor
	if bulk {
		c = &s.bulkCursor
	}
	if *c == nil {
		*c = s.bucket(bulk).Cursor()
	}
	return cursor{store: s.store, cursor: *c}
}

// forget forgets what was read, in case that it was much.
func (s *snapshot) forget() {
	const most = 1 << 10
	clear(s.values)
	if s.values = s.values[:0]; cap(s.values) > most {
		s.values = nil
	}
}

// maxStoredBytes is the longest value that any store may hold, whatever it was opened with.
const maxStoredBytes = kv.MaxValueBytes + kv.MaxOverheadBytes

// errTooLong means that the size of a key or value is damaged. Whoever reads it would go far beyond its page.
var errTooLong = fmt.Errorf("read entry: too long: %w", kv.ErrCorrupt)

// Get implements kv.Reader.
func (s *snapshot) Get(keys ...[]byte) ([][]byte, error) {
	first := len(s.values)
	for _, key := range keys {
		s.key = appendStoredKey(s.key[:0], s.scope, key)
		found, value, err := s.cursor(isBulk(key)).seek(s.key)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(found, s.key) {
			value = nil
		}
		if len(value) > maxStoredBytes {
			return nil, errTooLong
		}
		s.values = append(s.values, value)
	}
	return s.values[first:len(s.values):len(s.values)], nil
}

// Scan implements kv.Reader.
func (s *snapshot) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	start := txn.Start(opts)
	left := opts.Limit
	for _, bulk := range [...]bool{false, true} { // In this order: kv.BulkPrefix is the largest byte.
		if !bulk && isBulk(start) || bulk && len(opts.Prefix) > 0 && !isBulk(opts.Prefix) {
			continue
		}
		c := s.cursor(bulk)
		s.prefix = appendStoredKey(s.prefix[:0], s.scope, opts.Prefix)
		s.key = appendStoredKey(s.key[:0], s.scope, start)
		prefix := s.prefix
		key, value, err := c.seek(s.key)
		for ; err == nil && bytes.HasPrefix(key, prefix); key, value, err = c.next() {
			if len(key) > len(s.scope)+1+kv.MaxKeyBytes || len(value) > maxStoredBytes {
				return errTooLong
			}
			if opts.KeysOnly {
				value = nil
			}
			if err := fn(key[len(s.scope)+1:], value); err != nil {
				return err
			}
			if left--; left == 0 { // Where there is no limit it starts at zero and only goes down.
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put applies a write of a transaction; a nil value is a deletion.
func (s *snapshot) put(key, value []byte) (err error) {
	defer s.store.recovered(&err)
	bucket, stored := s.bucket(isBulk(key)), storedKey(s.scope, key)
	if err := s.store.paths.check(bucket, key, stored, value == nil); err != nil {
		return err
	}
	if value == nil {
		return bucket.Delete(stored)
	}
	return bucket.Put(stored, value)
}

// cursor is a cursor of bbolt that survives damaged pages.
type cursor struct {
	store  *Store
	cursor *bolt.Cursor
}

func (c cursor) seek(to []byte) (key, value []byte, err error) {
	defer c.store.recovered(&err)
	key, value = c.cursor.Seek(to)
	return key, value, nil
}

func (c cursor) next() (key, value []byte, err error) {
	defer c.store.recovered(&err)
	key, value = c.cursor.Next()
	return key, value, nil
}

// nextScope returns the name of the first scope after the given name, "" where there is none. It seeks beyond the keys
// of a scope rather than reading them.
func (c cursor) nextScope(after string) (string, error) {
	for from := after; ; {
		key, _, err := c.seek([]byte(from + "\x01")) // Above every key of the scope, at most at the next one's first.
		if err != nil || key == nil {
			return "", err
		}
		name, _, _ := bytes.Cut(key, []byte{0})
		if string(name) > after {
			return string(name), nil
		}
		from = string(name) // The given name has a zero byte: no scope's name, so it led into the middle of one.
	}
}

// Scopes implements kv.Store. It costs two seeks for each scope, however many keys they hold.
func (s *Store) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("list scopes: limit of %d: %w", limit, kv.ErrInvalid)
	}
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	tx, err := begin(s.db, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.

	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	snapshot, err := s.newSnapshot(tx, "")
	if err != nil {
		return nil, err
	}
	meta := cursor{store: s, cursor: snapshot.meta.Cursor()}
	bulk := cursor{store: s, cursor: snapshot.bulk.Cursor()}
	var names []string
	for len(names) < limit && ctx.Err() == nil {
		name, err := meta.nextScope(after)
		if err != nil {
			return nil, err
		}
		other, err := bulk.nextScope(after)
		if err != nil {
			return nil, err
		}
		if name == "" || other != "" && other < name {
			name = other
		}
		if name == "" {
			break
		}
		if after = name; name != kv.ReservedScope {
			names = append(names, name)
		}
	}
	return names, ctx.Err()
}
