// Package kv is the contract between memoryd and the ordered key-value stores that can hold its data.
//
// Keys live in scopes. A scope is a namespace of memoryd, or ReservedScope: what an engine locks, shards and routes
// by. A transaction never leaves one scope. Within a scope keys are in byte order, and two scopes never see each
// other's keys, even where one's name is a prefix of the other's.
//
// Keys that begin with BulkPrefix hold file contents, the others small records. An engine may keep the two apart so
// that a scan of records reads no contents; since BulkPrefix is the largest byte, that never changes the order.
package kv

import (
	"context"
	"errors"
	"io"
	"time"
)

// Limits are the smallest of all engines, so that data always moves between them. A larger key, value or transaction
// is ErrTooLarge.
const (
	// MaxKeyBytes is the most bytes a key may have, its scope not counted.
	MaxKeyBytes = 1280
	// MaxValueBytes is the most bytes a value may have.
	MaxValueBytes = 256 << 10
	// MaxWrites is the most Puts and Deletes one transaction may make; two of the same key count as two.
	MaxWrites = 20_000
	// MaxTransactionBytes is the most bytes of keys and values one transaction may write.
	MaxTransactionBytes = 32 << 20
	// MaxScopeBytes is the most bytes the name of a scope may have.
	MaxScopeBytes = 200
)

// MaxOverheadBytes is the most bytes that a decorator may add to a value. The limits above are those of its callers, so
// an engine can be opened with headroom for it: then it takes values that are longer by the overhead, and in a
// transaction as many bytes more for each write, and one write of the decorator's own, of at most 1 KiB. Every engine
// reads what was written with headroom, whether it was opened with it or not.
const MaxOverheadBytes = 64

// BulkPrefix is the first byte of every key that holds file contents.
const BulkPrefix = 0xff

// ReservedScope belongs to the store itself (schema version, cursors). It is outside the grammar of namespaces, and
// Scopes does not list it. Engines and decorators keep keys of their own there that begin with their name, which is of
// small letters and ends with "kv", and a dot. Those are nobody else's, and a decorator may hide them.
const ReservedScope = "~store"

// Errors of engines. Test them with errors.Is.
var (
	// ErrBusy means that the transaction surely was not committed and may be tried again.
	ErrBusy = errors.New("store is busy")
	// ErrUnknown means that the answer was lost: the transaction may or may not have been committed.
	ErrUnknown = errors.New("outcome of the transaction is unknown")
	// ErrTooLarge means that a key, value or transaction exceeds the limits above. Nothing was committed.
	ErrTooLarge = errors.New("too large")
	// ErrFull means that the disk is full. Nothing was committed.
	ErrFull = errors.New("store is full")
	// ErrReadOnly means that the store does not take writes. Nothing was committed.
	ErrReadOnly = errors.New("store is read-only")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrCorrupt means that stored bytes are not what was written.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrInvalid means that the caller broke the contract: an empty key; the name of a scope that is empty, too long,
	// or has a zero byte; a bad limit; or a transaction that is used within a Scan, or after its function returned.
	ErrInvalid = errors.New("invalid use of the store")
)

// Stop ends a Scan early when the function given to it returns it; the Scan then returns nil.
var Stop = errors.New("stop the scan") //nolint:errname,staticcheck // A signal such as fs.SkipDir, not a failure.

// Store is an ordered key-value store. It is safe for concurrent use, but the function of a transaction must not use
// the store: some engines would wait for themselves.
type Store interface {
	// View runs fn on one consistent snapshot of the scope and returns its error.
	View(ctx context.Context, scope string, fn func(Reader) error) error

	// Update runs fn in a transaction that is serialisable within the scope, and durable when Update returns nil.
	//
	// fn may run more than once, on any goroutine, so it has no effect besides the transaction. Where it returns an
	// error, nothing of it is committed, other transactions are not disturbed, and Update returns that error. Where
	// it panics, Update panics with the same value on the caller's goroutine. A context that is done before fn ran
	// gives the context's error, and nothing is committed. Nor is it where a Put or Delete failed, whatever fn makes of
	// that: Update then returns the first such error.
	Update(ctx context.Context, scope string, fn func(Tx) error) error

	// Scopes returns the names of the scopes that hold a key, in byte order: at most limit of those after the given
	// name. The limit must be positive.
	Scopes(ctx context.Context, after string, limit int) ([]string, error)

	// Close waits for the transactions that run, then releases everything. Later calls give ErrClosed.
	Close() error
}

// Reader reads one scope. The bytes that it gives are valid until the function of the transaction returns, and must
// not be changed. On a remote engine every call is a round trip, so ask for all that is needed at once.
type Reader interface {
	// Get returns the values of the keys, in their order; nil for a key that is absent. The value of a key that is
	// present is never nil.
	Get(keys ...[]byte) ([][]byte, error)
	// Scan calls fn for keys in byte order. An error of fn ends the scan and is returned, except for Stop.
	// fn must not use the transaction. Keys that cannot be stored are fine in the options: none is equal to them.
	Scan(opts ScanOptions, fn func(key, value []byte) error) error
}

// ScanOptions says what a Scan visits. The zero value visits every key of the scope.
type ScanOptions struct {
	// Prefix is what the keys begin with.
	Prefix []byte
	// From is the first key to visit, itself included; nil is the first with the prefix.
	From []byte
	// Limit is the most keys to visit; 0 is all of them.
	Limit int
	// KeysOnly leaves the values nil, which some engines give faster.
	KeysOnly bool
}

// Tx reads and writes one scope. Writes are buffered until the function returns; its own reads see them. Keys and
// values that are given to Put and Delete are copied.
type Tx interface {
	Reader
	// Put sets the value of a key. A nil value is an empty one.
	Put(key, value []byte) error
	// Delete removes a key. A key that is absent is no error.
	Delete(key []byte) error
}

// As finds an optional ability of a store, such as a check or a backup, through the decorators around it. A decorator
// has a method Unwrap() Store.
func As[T any](store Store) (T, bool) {
	for {
		if t, ok := store.(T); ok {
			return t, true
		}
		u, ok := store.(interface{ Unwrap() Store })
		if !ok {
			var zero T
			return zero, false
		}
		store = u.Unwrap()
	}
}

// Checker is the optional ability to verify that what is stored is well-formed.
type Checker interface {
	// Check reads the whole store and returns an error that wraps ErrCorrupt and names what is wrong.
	Check(ctx context.Context) error
}

// HealthReporter is the optional ability to tell whether a store takes writes.
type HealthReporter interface {
	// Health returns nil while the store takes writes, and else why it does not: ErrReadOnly, which lasts until the store
	// is opened again; ErrFull, which ends with the next commit that works, or when Health finds that there is room
	// again; or ErrClosed. It is cheap enough to be called every second, whether there are writes or not.
	Health() error
}

// StatsReporter is the optional ability to tell what a store holds, and how it commits.
type StatsReporter interface {
	// Stats returns what the store holds and has done. It is cheap enough to be called every second.
	Stats() Stats
	// ObserveCommits has fn called after every commit from now on, on the goroutine that commits, so that fn must be
	// quick. It takes the place of the fn before; nil is none.
	ObserveCommits(fn func(Commit))
}

// Stats is what a store holds and has done since it was opened. What an engine does not know is 0.
type Stats struct {
	// SizeBytes is what the store takes on disk, and FreeBytes is how much of that is free for what comes.
	SizeBytes, FreeBytes int64
	// DiskFreeBytes is how much room the file system of the store has left; nil where that is not known.
	DiskFreeBytes *int64
	// Waiting is how many updates wait for their turn now.
	Waiting int64
	// Updates is how many updates were committed; those that wrote nothing do not count.
	Updates int64
	// Commits is how many commits that took.
	Commits int64
}

// Commit is what one commit was. What an engine does not know is 0.
type Commit struct {
	// Updates is how many updates shared it.
	Updates int
	// WriteCalls is how many writes it made to the disk, and WrittenBytes how many bytes they had.
	WriteCalls, WrittenBytes int64
	// Took is how long it took, and Write how much of that went by until what was written was on the disk.
	Took, Write time.Duration
}

// Backuper is the optional ability to copy the whole store while it is in use.
type Backuper interface {
	// Backup makes a copy of what is committed and returns it, in the form that the engine restores. Updates may have to
	// wait while it is made, and not while it is read. ErrFull means that there is no room for it.
	Backup(ctx context.Context) (Backup, error)
}

// Backup is a copy of a store. It is read once, by one goroutine, and Close releases the room that it takes.
type Backup interface {
	io.ReadCloser
	// Size is how many bytes there are to read in all.
	Size() int64
}
