// Package boltkv keeps a kv.Store in one bbolt file, for one process.
//
// The data directory holds two files:
//
//	memoryd.db   the bbolt database; its file lock is what keeps a second process away
//	LOCK         who holds it, for people: {"pid": 4711, "address": "127.0.0.1:7711"}
//
// and at times some more:
//
//	memoryd.db.schema-1              a backup from before the migration to the next schema version
//	memoryd.db.before-restore-TIME   what a restore took the place of
//	memoryd.db.before-encrypt-TIME   what Rewrite took the place of, with the suffix that it was given
//	create-*.tmp and the like        what is under way, or was when the process was killed; the next start removes it
//
// Whoever puts another file in the place of memoryd.db holds the lock of the one that is there.
//
// The database holds two buckets, which keep small records apart from file contents so that a scan of the one reads no
// pages of the other. Keep this picture true, and add a migration when an older memoryd cannot read the result:
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
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// Defaults of Options.
const (
	// DefaultLockTimeout is how long Open waits for another process to let go of the data directory.
	DefaultLockTimeout = time.Second
	// DefaultMapBytes is how much address space is mapped at first. It takes neither memory nor disk.
	DefaultMapBytes = 1 << 30
)

const (
	fileName = "memoryd.db"
	lockName = "LOCK"

	// pageSize holds a few records of a tree and wastes little of a chunk of contents. It is fixed at creation.
	pageSize = 8 << 10
	// The file grows by an eighth at a time, within these limits: each time costs a sync more, and what is not used yet
	// makes a small store look big.
	minGrowthBytes = 1 << 20
	maxGrowthBytes = 16 << 20
)

// growth returns by how many bytes a file of a size grows.
func growth(size int64) int { return int(min(max(size/8, minGrowthBytes), maxGrowthBytes)) }

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
	// MapBytes is how much address space is mapped at first; 0 is DefaultMapBytes. When the file grows beyond what is
	// mapped, updates wait until every View has ended that runs.
	MapBytes int
	// OverheadBytes is how much a decorator adds to each value, at most kv.MaxOverheadBytes: the store takes that much
	// more than the limits of package kv. 0 is without a decorator.
	OverheadBytes int
	// Check is called with the store that is there, for reading, before a byte of the directory is changed. Its error
	// ends Open. It is not called where there is no store yet, nor with ReadOnly. nil checks nothing.
	Check func(ctx context.Context, store kv.Store) error
	// Logger gets what errors must not tell, such as the cause of a failed commit; nil discards it.
	Logger *slog.Logger

	migrations []migration       // nil are those of the package; tests have their own
	step       func(name string) // is called where tests interfere; nil does nothing
}

// Store is a kv.Store in a bbolt file.
type Store struct {
	options  Options
	path     string // of the database
	db       *bolt.DB
	file     *os.File // that db has open
	log      *slog.Logger
	now      func() time.Time
	closing  atomic.Bool
	spooling chan struct{} // holds a value while a backup is copied

	space     space
	paths     paths // of the committer's transaction
	idleReads idleReads
	queue     queue
	gathering gathering            // of the committer
	stopped   chan struct{}        // closed when the committer ended
	readOnly  atomic.Bool          // set for good at Open or by a commit that went wrong
	commitTx  func(*bolt.Tx) error // (*bolt.Tx).Commit; tests make it fail
	updates   atomic.Int64
	commits   atomic.Int64
	observe   atomic.Pointer[func(kv.Commit)] // nil is nobody
}

var (
	_ kv.Store          = (*Store)(nil)
	_ kv.Checker        = (*Store)(nil)
	_ kv.Backuper       = (*Store)(nil)
	_ kv.HealthReporter = (*Store)(nil)
	_ kv.StatsReporter  = (*Store)(nil)
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
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // See Store.recovered.
	s := newStore(o, filepath.Join(o.Dir, fileName))
	open := s.openWritable
	if o.ReadOnly {
		open = s.openReadOnly
	}
	if err := open(ctx); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	go s.commitLoop()
	return s, nil
}

// newStore returns a store that is not open yet.
func newStore(o Options, path string) *Store {
	if o.LockTimeout <= 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.MapBytes <= 0 {
		o.MapBytes = DefaultMapBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	s := &Store{
		options: o, path: path, log: o.Logger, now: time.Now, stopped: make(chan struct{}), commitTx: (*bolt.Tx).Commit,
		spooling: make(chan struct{}, 1),
	}
	s.queue.init()
	s.readOnly.Store(o.ReadOnly)
	return s
}

func (s *Store) lockPath() string { return filepath.Join(s.options.Dir, lockName) }

func (s *Store) openReadOnly(ctx context.Context) error {
	version, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	return s.closeUnless(s.readable(version))
}

// readable returns why a store of a schema version cannot be read as it is.
func (s *Store) readable(version int) error {
	switch latest := s.latestVersion(); {
	case version == 0:
		return fmt.Errorf("%s has no schema version", s.path)
	case version < latest:
		return fmt.Errorf("%s has schema version %d and this memoryd reads %d: it migrates a data directory when it "+
			"starts there; to restore a backup, use the memoryd that made it first", s.path, version, latest)
	}
	return nil
}

// closeUnless closes the database where there is an error, and returns that.
func (s *Store) closeUnless(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, s.db.Close())
}

func (s *Store) openWritable(ctx context.Context) error {
	if err := makeDir(s.options.Dir); err != nil {
		return err
	}
	// Look first, since bbolt does not survive a damaged file. That also finds out whether a LOCK is stale: nobody
	// writes it while we may read.
	began := s.now()
	unclean := false
	switch version, err := s.inspect(ctx); {
	case err == nil:
		if s.options.Check != nil && version > 0 {
			if err := s.options.Check(ctx, forReading{s}); err != nil {
				return s.closeUnless(err)
			}
		}
		unclean = os.Remove(s.lockPath()) == nil
		if err := s.db.Close(); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := s.create(); err != nil {
			return fmt.Errorf("make store: %w", err)
		}
	case errors.Is(err, errTooShort):
		return fmt.Errorf("%w; restore a backup, or move the file away to begin without memories", err)
	default:
		return err
	}

	if err := s.openForWriting(); err != nil {
		return err
	}
	if unclean {
		s.log.Info("found the free pages of the store", "dir", s.options.Dir, "took", s.now().Sub(began))
	}
	return s.closeUnless(s.takeOver())
}

// forReading is a store that nobody commits to yet.
type forReading struct{ *Store }

// Update implements kv.Store.
func (forReading) Update(context.Context, string, func(kv.Tx) error) error {
	return fmt.Errorf("update: %w", kv.ErrReadOnly)
}

// openForWriting opens the database for writing. It must exist; where it is empty, bbolt fills it.
func (s *Store) openForWriting() error {
	db, err := s.openBolt(&bolt.Options{
		PageSize:        pageSize,
		FreelistType:    bolt.FreelistMapType,
		NoFreelistSync:  true, // Close writes the list of free pages once.
		InitialMmapSize: s.initialMapBytes(),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			file, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			s.options.step("opened")
			return file, err
		},
	})
	if err != nil {
		return err
	}
	db.AllocSize = minGrowthBytes
	s.db = db
	// Before it got the lock, somebody else who had it may have put another file in its place.
	same, err := isFileAt(s.file, s.path)
	if err == nil && !same {
		err = fmt.Errorf("%s was replaced while it was being opened: start again", s.path)
	}
	return s.closeUnless(err)
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
	switch {
	case version == 0:
		err = s.createSchema()
	case version < s.latestVersion():
		err = s.migrate(version)
	}
	return errors.Join(err, removeLeftovers(s.options.Dir), syncDir(s.options.Dir))
}

// errTooShort is kv.ErrCorrupt of a file that is too short for any database. We never leave one: see create.
var errTooShort = fmt.Errorf("%w", kv.ErrCorrupt)

// inspect opens the database for reading and returns its schema version, 0 where it has none yet. It leaves s.db open
// unless there is an error.
func (s *Store) inspect(ctx context.Context) (version int, err error) {
	size, want, err := s.openForReading()
	if err != nil {
		return 0, err
	}
	if size < want {
		err = s.truncated(size, want)
	} else {
		err = s.warmUp(ctx, want)
	}
	if err == nil {
		err = s.checkTree(ctx)
	}
	if err == nil {
		version, err = s.schema()
	}
	return version, s.closeUnless(err)
}

// openForReading opens the database for reading, without looking beyond its first two pages. It returns the bytes that
// the file has and those that the database takes of it.
func (s *Store) openForReading() (size, want int64, err error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0, 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, 0, fmt.Errorf("%s is not a regular file", s.path)
	}
	if info.Size() == 0 {
		return 0, 0, s.tooShort(0) // bbolt would write to it.
	}
	if s.db, err = s.openBolt(&bolt.Options{ReadOnly: true}); err != nil {
		if strings.Contains(err.Error(), "file size too small") { // bbolt has no value to compare with.
			err = s.tooShort(info.Size())
		}
		return 0, 0, err
	}
	if info, err = os.Stat(s.path); err != nil { // Again, now that nobody writes.
		return 0, 0, s.closeUnless(err)
	}
	err = s.db.View(func(tx *bolt.Tx) error {
		want = tx.Size()
		return nil
	})
	return info.Size(), want, s.closeUnless(err)
}

func (s *Store) tooShort(size int64) error {
	return fmt.Errorf("%s is truncated, it has %d bytes: %w", s.path, size, errTooShort)
}

func (s *Store) truncated(size, want int64) error {
	return fmt.Errorf("%s is truncated, it has %d bytes of %d: %w", s.path, size, want, kv.ErrCorrupt)
}

func (s *Store) openBolt(options *bolt.Options) (db *bolt.DB, err error) {
	path := s.path
	options.Timeout = s.options.LockTimeout
	open := os.OpenFile
	if options.OpenFile != nil {
		open = options.OpenFile
	}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		s.file, err = open(name, flag, mode)
		return s.file, err
	}
	defer func() { // How bbolt meets a damaged list of free pages.
		if r := recover(); r != nil {
			err = errors.Join(fmt.Errorf("%s: %w: %v", path, kv.ErrCorrupt, r), s.file.Close())
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
func (s *Store) initialMapBytes() int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" {
		return 0
	}
	return s.options.MapBytes
}

// View implements kv.Store.
func (s *Store) View(ctx context.Context, scope string, fn func(kv.Reader) error) (err error) {
	if err := txn.CheckScope(scope); err != nil {
		return err
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	read, err := s.beginRead(scope)
	if err != nil {
		return err
	}
	returned := false
	defer func() { s.endRead(read, returned) }()
	defer s.recoveredFault(&err)
	r := txn.NewReader(read)
	defer r.End()
	err = fn(r)
	returned = true
	return err
}

// beginRead returns a read transaction of what is committed.
func (s *Store) beginRead(scope string) (*read, error) {
	idle, generation := s.idleReads.take()
	if idle != nil {
		idle.scope = scope
		return idle, nil
	}
	tx, err := begin(s.db, false)
	if err != nil {
		return nil, err
	}
	begun := &read{tx: tx, generation: generation}
	if begun.snapshot, err = s.newSnapshot(tx, scope); err != nil {
		_ = tx.Rollback() // It fails only where it was done already.
		return nil, err
	}
	return begun, nil
}

// endRead ends a read transaction, or keeps it for others. One whose function did not return is not trusted any more.
func (s *Store) endRead(r *read, returned bool) {
	r.forget()
	if !returned || !s.idleReads.give(r) {
		_ = r.tx.Rollback() // It fails only where it was done already.
	}
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

// recovered is deferred around calls of bbolt, which panics where it meets a damaged page, or follows it to where there
// is no file. The latter is a fault: it ends the process, unless debug.SetPanicOnFault was called on the goroutine.
func (s *Store) recovered(err *error) {
	if r := recover(); r != nil {
		*err = s.damaged(r)
	}
}

// recoveredFault is deferred around functions of callers. They may meet a fault in what was lent to them; their own
// panics go on.
func (s *Store) recoveredFault(err *error) {
	switch r := recover(); r.(type) {
	case nil:
	case interface {
		runtime.Error
		Addr() uintptr
	}:
		*err = s.damaged(r)
	default:
		panic(r)
	}
}

func (s *Store) damaged(panicked any) error {
	s.log.Error("page is damaged, run memoryd check", "panic", panicked, "stack", string(debug.Stack()))
	return fmt.Errorf("use page: %w", kv.ErrCorrupt)
}

// Close implements kv.Store. Updates that were called before it are still committed.
func (s *Store) Close() error { return s.closeAfter(func() error { return nil }) }

// closeAfter closes the store, and calls last while nobody else can open it.
func (s *Store) closeAfter(last func() error) error {
	if s.closing.Swap(true) {
		return fmt.Errorf("close store: %w", kv.ErrClosed)
	}
	s.queue.close()
	<-s.stopped

	var err error
	if !s.readOnly.Load() { // Where a commit went wrong, the rest is better left to the next start.
		err = s.leave()
	}
	if err == nil {
		err = last()
	}
	if err = errors.Join(err, s.db.Close()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// leave makes the next start quick, and says so by the absence of LOCK. It runs while the database is still locked:
// a LOCK that is there afterwards belongs to the next holder.
func (s *Store) leave() error {
	if err := s.writeFreePages(); err != nil {
		return err
	}
	if err := os.Remove(s.lockPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFreePages writes the list of free pages, so that the next start need not look for them.
func (s *Store) writeFreePages() error {
	s.db.NoFreelistSync = false
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	if err := s.tryCommit(tx); err != nil {
		return fmt.Errorf("write list of free pages: %w", err)
	}
	return nil
}
