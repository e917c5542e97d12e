// Package boltkv keeps a kv.Store in one bbolt file, for one process.
//
// The data directory holds two files:
//
//	memoryd.db   the bbolt database; its file lock is what keeps a second process away
//	LOCK         who holds it, for people: {"pid": 4711, "address": "127.0.0.1:7711"}
//
// The database holds two buckets, which keep small records apart from file contents so that a scan of the one reads no
// pages of the other. Keep this picture true, and raise schemaVersion when an older memoryd cannot read the result:
//
//	meta                                      keys that do not begin with kv.BulkPrefix
//	├── <scope> 0x00 <key>                    : value
//	└── "~store" 0x00 "boltkv.schema"         : schema version in decimal; "~store" is kv.ReservedScope
//	bulk                                      keys that begin with kv.BulkPrefix
//	└── <scope> 0x00 <key>                    : value
//
// A name of a scope has no zero byte, so scopes are in byte order and no scope reads another's keys.
//
// Updates are committed in groups, see Store.Update. A View may see a commit in the moment before it is synced to the
// disk, as with bbolt itself.
package boltkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// DefaultLockTimeout is how long Open waits for another process to let go of the data directory.
const DefaultLockTimeout = time.Second

const (
	fileName = "memoryd.db"
	lockName = "LOCK"

	// pageSize holds a few records of a tree and wastes little of a chunk of contents. It is fixed at creation.
	pageSize = 8 << 10
	// allocBytes is by how much the file grows at a time. bbolt's default of 16 MiB makes a small store look big.
	allocBytes = 1 << 20
	// mapBytes is how much address space is mapped at first. Growing beyond it waits for every View to end.
	mapBytes = 1 << 30
)

// Options are the options of Open.
type Options struct {
	// Dir is the data directory. It is made, with mode 0700, where it does not exist; never with ReadOnly.
	Dir string
	// Address is what LOCK says about where the holder can be reached. It may be empty.
	Address string
	// LockTimeout is how long to wait for another process to let go; 0 is DefaultLockTimeout.
	LockTimeout time.Duration
	// ReadOnly opens a store that exists without changing a byte of the directory. Updates give kv.ErrReadOnly. Any
	// number of processes may do so at a time, but not while one holds the store for writing.
	ReadOnly bool
	// Logger gets what errors must not tell, such as the cause of a failed commit; nil discards it.
	Logger *slog.Logger
}

// Store is a kv.Store in a bbolt file.
type Store struct {
	options Options
	db      *bolt.DB
	log     *slog.Logger
	closing atomic.Bool

	queue    queue
	stopped  chan struct{}        // closed when the committer ended
	readOnly atomic.Bool          // set for good at Open or by a commit that went wrong
	commitTx func(*bolt.Tx) error // (*bolt.Tx).Commit; tests make it fail
	updates  atomic.Int64
	commits  atomic.Int64
	largest  atomic.Int64
}

var (
	_ kv.Store   = (*Store)(nil)
	_ kv.Checker = (*Store)(nil)
)

// Open opens the store of a data directory. Where another process holds it, the error is an *InUseError. Errors of
// Open, Check and Close may name paths of the host; those of View, Update and Scopes, which reach clients, never do.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("open store: no data directory given")
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: o, log: o.Logger, stopped: make(chan struct{}), commitTx: (*bolt.Tx).Commit}
	s.queue.init()
	s.readOnly.Store(o.ReadOnly)
	open := s.openWritable
	if o.ReadOnly {
		open = s.openReadOnly
	}
	if err := open(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	go s.commitLoop()
	return s, nil
}

func (s *Store) path() string     { return filepath.Join(s.options.Dir, fileName) }
func (s *Store) lockPath() string { return filepath.Join(s.options.Dir, lockName) }

func (s *Store) openReadOnly() error {
	version, err := s.inspect()
	if err != nil {
		return err
	}
	if version == 0 {
		return errors.Join(fmt.Errorf("%s has no schema version", s.path()), s.db.Close())
	}
	return nil
}

func (s *Store) openWritable() error {
	if err := makeDir(s.options.Dir); err != nil {
		return err
	}
	// bbolt reads the whole tree when it opens a store for writing, and a page that a truncated file lacks ends the
	// process. So look first, which also finds out whether a LOCK is stale: nobody writes it while we may read.
	switch _, err := s.inspect(); {
	case err == nil:
		if os.Remove(s.lockPath()) == nil {
			s.log.Info("store was not closed cleanly, looking for its free pages", "dir", s.options.Dir)
		}
		if err := s.db.Close(); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEmpty):
		return err
	}

	db, err := s.openBolt(&bolt.Options{
		PageSize:        pageSize,
		FreelistType:    bolt.FreelistMapType,
		NoFreelistSync:  true, // Close writes the list of free pages once.
		InitialMmapSize: initialMapBytes(),
	})
	if err != nil {
		return err
	}
	db.AllocSize = allocBytes
	s.db = db
	if err := s.takeOver(); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// takeOver makes the files of a database that is locked complete.
func (s *Store) takeOver() error {
	if err := writeHolder(s.lockPath(), s.options.Address); err != nil {
		return err
	}
	version, err := s.schema()
	if err != nil {
		return err
	}
	if version == 0 {
		if err := s.createSchema(); err != nil {
			return err
		}
	}
	return syncDir(s.options.Dir)
}

var errEmpty = errors.New(fileName + " is empty")

// inspect opens the database for reading and returns its schema version, 0 where it has none yet. It leaves s.db open
// unless there is an error.
func (s *Store) inspect() (version int, err error) {
	path := s.path()
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if info.Size() == 0 {
		return 0, fmt.Errorf("%s: %w", path, errEmpty) // bbolt would write to it.
	}
	db, err := s.openBolt(&bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	s.db = db
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if info, err = os.Stat(path); err != nil { // Again, now that nobody writes.
		return 0, err
	}
	err = db.View(func(tx *bolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("%s is truncated, it has %d bytes of %d: %w", path, info.Size(), tx.Size(), kv.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.schema()
}

func (s *Store) openBolt(options *bolt.Options) (db *bolt.DB, err error) {
	path := s.path()
	options.Timeout = s.options.LockTimeout
	defer func() { // How bbolt meets a damaged list of free pages.
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %w: %v", path, kv.ErrCorrupt, r)
		}
	}()
	db, err = bolt.Open(path, 0o600, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, s.inUse()
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%s is damaged or no database of bbolt: %w: %w", path, kv.ErrCorrupt, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return db, nil
}

// initialMapBytes returns how much to map at first: nothing to speak of where mapping takes more than address space.
func initialMapBytes() int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" {
		return 0
	}
	return mapBytes
}

func makeDir(dir string) error {
	_, err := os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the names of new files in a directory as durable as their contents.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // Directories cannot be synced there.
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// View implements kv.Store.
func (s *Store) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	if err := txn.CheckScope(scope); err != nil {
		return err
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	tx, err := begin(s.db, false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.

	r := txn.NewReader(s.newSnapshot(tx, scope))
	defer r.End()
	return fn(r)
}

// usable returns why no transaction can begin.
func (s *Store) usable(ctx context.Context) error {
	if s.closing.Load() {
		return fmt.Errorf("begin transaction: %w", kv.ErrClosed)
	}
	return ctx.Err()
}

// begin starts a transaction of bbolt.
func begin(db *bolt.DB, writable bool) (*bolt.Tx, error) {
	tx, err := db.Begin(writable)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		err = kv.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// recovered is deferred around calls of bbolt, which panics where it meets a damaged page.
func (s *Store) recovered(err *error) {
	if r := recover(); r != nil {
		s.log.Error("bbolt panicked, run memoryd check", "panic", r, "stack", string(debug.Stack()))
		*err = fmt.Errorf("use page: %w", kv.ErrCorrupt)
	}
}

// Close implements kv.Store. Updates that were called before it are still committed.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return fmt.Errorf("close store: %w", kv.ErrClosed)
	}
	s.queue.close()
	<-s.stopped

	var err error
	if !s.readOnly.Load() { // Where a commit went wrong, the rest is better left to the next start.
		err = s.leave()
	}
	if err = errors.Join(err, s.db.Close()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// leave makes the next start quick, and says so by the absence of LOCK. It runs while the database is still locked:
// a LOCK that is there afterwards belongs to the next holder.
func (s *Store) leave() error {
	s.db.NoFreelistSync = false
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	if err := s.tryCommit(tx); err != nil {
		return fmt.Errorf("write list of free pages: %w", err)
	}
	return os.Remove(s.lockPath())
}
