package boltkv

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

const (
	// fullLogInterval is how often the log says that the disk is full.
	fullLogInterval = time.Minute
	// probeInterval is how often Health looks whether it still is.
	probeInterval = time.Second
	// probeBytes is how much must fit for it not to be: some updates, and the growth of the file.
	probeBytes = 4 << 20
)

// Health implements kv.HealthReporter. Where the disk is full, it looks at most once a second whether there is room
// again, by writing a small file to the data directory.
func (s *Store) Health() error {
	switch {
	case s.closing.Load():
		return kv.ErrClosed
	case s.readOnly.Load():
		return kv.ErrReadOnly
	case s.space.full(s.now(), s.probe):
		return kv.ErrFull
	}
	return nil
}

// probe returns an error where there is no room for some updates: neither free pages in the file, nor on the disk.
func (s *Store) probe() error {
	if s.db.Stats().FreePageN*pageSize >= probeBytes {
		return nil
	}
	file, err := os.CreateTemp(s.options.Dir, probePattern)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, probeBytes))
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
}

// space is what the store knows of the room on the disk. The zero value is that there is some.
type space struct {
	mu       sync.Mutex
	lacking  bool      // a commit found none, and no probe found any since
	probed   time.Time // when lacking was found out
	refused  int       // commits since the last one that worked
	logged   time.Time // when that was last logged
	unlogged int       // commits that were refused since
}

// full returns whether there is no room, for all that is known without trying more than once a second.
func (s *space) full(now time.Time, probe func() error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacking && now.Sub(s.probed) >= probeInterval {
		s.probed = now
		s.lacking = probe() != nil
	}
	return s.lacking
}

// lacked notes that a commit found no room.
func (s *space) lacked(log *slog.Logger, now time.Time, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacking, s.probed = true, now
	s.refused++
	s.unlogged++
	if s.refused == 1 || now.Sub(s.logged) >= fullLogInterval {
		log.Error("commit failed, the disk is full", "error", cause, "commits", s.unlogged)
		s.logged, s.unlogged = now, 0
	}
}

// found notes that a commit worked.
func (s *space) found(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 0 {
		log.Info("commits work again, the disk has room", "failed", s.refused)
	}
	s.refused, s.unlogged = 0, 0 // A small commit can fit where a large one does not, so only a probe tells of room.
}
