package boltkv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// RewriteOptions are the options of Rewrite.
type RewriteOptions struct {
	// Options are those of the store that is there. OverheadBytes is that of the new one.
	Options
	// Fill writes the new store, which is empty, from the one that is there, which must not be written to. It checks
	// what it wrote. Its error ends the rewriting.
	Fill func(ctx context.Context, old, to kv.Store) error
	// Suffix is part of the name that the old store is kept under.
	Suffix string
	// Now returns the time that is the rest of that name.
	Now func() time.Time
}

// Rewrite makes a new store of that of a data directory, puts it in its place, and returns the name that the old one
// has now. No process may have the store open. A crash leaves the one or the other.
func Rewrite(ctx context.Context, o RewriteOptions) (kept string, err error) {
	if kept, err = rewrite(ctx, o); err != nil {
		return "", fmt.Errorf("rewrite store: %w", err)
	}
	return kept, nil
}

func rewrite(ctx context.Context, o RewriteOptions) (kept string, err error) {
	path := filepath.Join(o.Dir, fileName)
	if _, err := os.Stat(path); err != nil { // Open would make a store where there is none.
		return "", err
	}
	s, err := Open(ctx, o.Options)
	if err != nil {
		return "", err
	}
	temp, err := s.fillCopy(ctx, o)
	if err != nil {
		return "", errors.Join(err, s.Close())
	}
	kept = keptName(path, o.Suffix, o.Now())
	err = s.closeAfter(func() error {
		if err := link(path, kept); err != nil {
			return err
		}
		s.options.step("kept")
		if err := os.Rename(temp, path); err != nil {
			return err
		}
		s.options.step("swapped")
		return syncDir(o.Dir)
	})
	if err != nil {
		return "", errors.Join(err, removeIfThere(temp))
	}
	return kept, nil
}

// fillCopy makes a database under another name, has it filled, checks it, and returns its path.
func (s *Store) fillCopy(ctx context.Context, o RewriteOptions) (_ string, err error) {
	path, err := s.makeDatabase(rewritePattern)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(path))
		}
	}()
	options := o.Options
	options.step = nil
	c := newStore(options, path)
	if err := c.openForWriting(); err != nil {
		return "", err
	}
	go c.commitLoop()
	err = o.Fill(ctx, forReading{s}, c)
	if err == nil {
		err = c.Check(ctx)
	}
	// Not Close, which would remove the LOCK of the store that is there.
	c.closing.Store(true)
	c.queue.close()
	<-c.stopped
	if err == nil {
		err = c.writeFreePages()
	}
	if err := errors.Join(err, c.db.Close()); err != nil {
		return "", err
	}
	s.options.step("filled")
	return path, ctx.Err()
}
