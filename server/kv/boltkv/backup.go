package boltkv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// A backup file is a database of bbolt and then the SHA-256 of it, by which a file that was cut off or changed is not
// taken for a backup.
const trailerBytes = sha256.Size

// Backup implements kv.Backuper. While a transaction of bbolt reads, the pages that it sees are not used again, and
// the file cannot grow beyond what is mapped. So the backup is first written to a file in the data directory, at the
// speed of the disk, and then read from there at whatever speed.
func (s *Store) Backup(ctx context.Context) (_ kv.Backup, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if s.options.ReadOnly { // It must not change a byte of the directory.
		return nil, fmt.Errorf("make backup: %w", kv.ErrReadOnly)
	}
	// One after the other, so that each sees the room that is left by those before.
	select {
	case s.spooling <- struct{}{}:
		defer func() { <-s.spooling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	size, err := usedBytes(s.db)
	if err != nil {
		return nil, err
	}
	if err := CheckRoom(s.options.Dir, size); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(s.options.Dir, spoolPattern)
	if err != nil {
		return nil, spoolError(err)
	}
	b := &spool{file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.size, err = s.writeBackup(ctx, file); err != nil {
		return nil, spoolError(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, spoolError(err)
	}
	return b, nil
}

// backupHeadroom is how much room a backup leaves on the disk: filling it up would make writers fail.
const backupHeadroom = 16 << 20

// CheckRoom returns an error that wraps kv.ErrFull where a directory has no room for a backup of a size in bytes, with
// something left for others.
func CheckRoom(dir string, size int64) error {
	if free, ok := freeBytes(dir); ok && free < uint64(size)+backupHeadroom {
		return fmt.Errorf("write backup: it takes %d bytes and leaves %d, but %d are free: %w",
			size, backupHeadroom, free, kv.ErrFull)
	}
	return nil
}

func spoolError(err error) error {
	if isFull(err) {
		return fmt.Errorf("write backup to data directory: %w: %w", kv.ErrFull, err)
	}
	return fmt.Errorf("write backup to data directory: %w", err)
}

// writeBackup writes what is committed as a backup file, and returns its size.
func (s *Store) writeBackup(ctx context.Context, w io.Writer) (size int64, err error) {
	tx, err := begin(s.db, false)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.

	hash := sha256.New()
	size, err = tx.WriteTo(&contextWriter{ctx: ctx, w: io.MultiWriter(w, hash)})
	if ctx.Err() != nil { // bbolt flattens some errors into text.
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, err
	}
	n, err := w.Write(hash.Sum(nil))
	return size + int64(n), err
}

// contextWriter stops writing when its context is done.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w *contextWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}

// spool is a kv.Backup in a file that is removed when it is closed.
type spool struct {
	file *os.File
	size int64
}

// Read implements io.Reader.
func (b *spool) Read(p []byte) (int, error) { return b.file.Read(p) }

// Size implements kv.Backup.
func (b *spool) Size() int64 { return b.size }

// Close implements io.Closer.
func (b *spool) Close() error { return errors.Join(b.file.Close(), os.Remove(b.file.Name())) }

// ErrNoBackup means that a file is the database of a store, as a data directory has it, and no backup of one. A backup
// that was cut off just before its checksum looks the same.
var ErrNoBackup = errors.New("is a store and no backup, or a backup without the checksum at its end")

// OpenBackup opens the store in a backup file for reading, and changes nothing. A file that is not wholly what Backup
// made is refused; Check tells more of what is in it. For the database of a store the error is ErrNoBackup.
func OpenBackup(ctx context.Context, path string) (*Store, error) {
	s := newStore(Options{Dir: filepath.Dir(path), ReadOnly: true}, path)
	if err := s.openBackup(ctx); err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	go s.commitLoop()
	return s, nil
}

func (s *Store) openBackup(ctx context.Context) error {
	size, want, err := s.openForReading()
	if err != nil {
		return err
	}
	if size >= want && size%pageSize == 0 {
		return s.closeUnless(fmt.Errorf("%s %w", s.path, ErrNoBackup))
	}
	switch want += trailerBytes; {
	case size < want:
		return s.closeUnless(s.truncated(size, want))
	case size > want:
		return s.closeUnless(fmt.Errorf("%s is no backup, or was added to: it has %d bytes where a backup has %d: %w",
			s.path, size, want, kv.ErrCorrupt))
	}
	// Nothing beyond the first pages is looked at before this.
	if err := copyBackup(ctx, io.Discard, s.path); err != nil {
		return s.closeUnless(err)
	}
	if err := s.checkTree(ctx); err != nil {
		return s.closeUnless(err)
	}
	version, err := s.schema()
	if err == nil {
		err = s.readable(version)
	}
	return s.closeUnless(err)
}

// copyBackup copies the database in a backup file. Where the SHA-256 at its end is not that of the database, what was
// written is of no use.
func copyBackup(ctx context.Context, w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // Nothing was written.
	info, err := file.Stat()
	if err != nil {
		return err
	}
	hash := sha256.New()
	w = &contextWriter{ctx: ctx, w: io.MultiWriter(w, hash)}
	if _, err := io.CopyN(w, file, info.Size()-trailerBytes); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	trailer := make([]byte, trailerBytes)
	if _, err := io.ReadFull(file, trailer); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !bytes.Equal(trailer, hash.Sum(nil)) {
		return fmt.Errorf("%s was changed: its content does not have the SHA-256 that stands at its end: %w",
			path, kv.ErrCorrupt)
	}
	return nil
}
