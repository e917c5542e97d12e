package boltkv

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// A group takes no more updates once it has this much to write, so that no commit takes long. An update can have a
// kv.MaxTransactionBytes of its own, so a group has less than the sum of the two.
const (
	maxGroupWrites = 10_000
	maxGroupBytes  = 8 << 20
)

// Stats implements kv.StatsReporter.
func (s *Store) Stats() kv.Stats {
	stats := kv.Stats{
		Waiting: int64(s.queue.len()),
		Updates: s.updates.Load(), Commits: s.commits.Load(),
	}
	if info, err := s.file.Stat(); err == nil { // Else the store is closed.
		stats.SizeBytes = info.Size()
	}
	if room, ok := freeBytes(s.options.Dir); ok {
		stats.DiskFreeBytes = new(int64(room))
	}
	free := s.db.Stats()
	stats.FreeBytes = int64(free.FreePageN+free.PendingPageN) * pageSize
	return stats
}

// ObserveCommits implements kv.StatsReporter.
func (s *Store) ObserveCommits(fn func(kv.Commit)) {
	if fn == nil {
		fn = func(kv.Commit) {}
	}
	s.observe.Store(&fn)
}

// update is a call of Update. The committer lends it a transaction when it is its turn.
type update struct {
	ctx   context.Context
	scope string
	turn  chan *txn.Tx // unbuffered: a turn is taken, or the context is done and the caller gone
	ran   chan error   // from the caller to the committer: how its function ended
	done  chan error   // from the committer to the caller: the outcome
}

// errAbandoned is how a function ended that did not return.
var errAbandoned = errors.New("function of the transaction did not return")

// Update implements kv.Store.
//
// One goroutine, the committer, collects the updates that wait and runs them one after the other in a single
// transaction of bbolt, each in a buffer of its own and on its caller's goroutine. One that fails leaves its buffer
// unused. Then it commits once and answers all of them.
//
// A context that is done while the update waits for its turn ends it. Once fn ran, Update waits for the commit whatever
// the context says: only then does it know the outcome.
func (s *Store) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	if err := txn.CheckScope(scope); err != nil {
		return err
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	u, _ := unusedUpdates.Get().(*update)
	u.ctx, u.scope = ctx, scope
	if !s.queue.push(u) {
		return fmt.Errorf("update: %w", kv.ErrClosed)
	}
	select {
	case t := <-u.turn:
		u.run(s, t, fn)
		err := <-u.done
		u.release()
		return err
	case err := <-u.done: // No turn: the store takes no writes, or is damaged.
		u.release()
		return err
	case <-ctx.Done(): // The committer has it still.
		return ctx.Err()
	}
}

// unusedUpdates keeps updates for the sake of their channels. One that was answered has empty ones, and the committer
// has let go of it.
var unusedUpdates = sync.Pool{New: func() any {
	return &update{turn: make(chan *txn.Tx), ran: make(chan error, 1), done: make(chan error, 1)}
}}

func (u *update) release() {
	u.ctx = nil
	unusedUpdates.Put(u)
}

// run calls fn and tells the committer how it ended. A panic goes on to the caller of Update, with its own stack.
func (u *update) run(s *Store, t *txn.Tx, fn func(kv.Tx) error) {
	err := errAbandoned
	defer func() {
		t.End()
		u.ran <- err
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer s.recoveredFault(&err)
	if ctxErr := u.ctx.Err(); ctxErr != nil {
		err = ctxErr
		return
	}
	if fnErr := fn(t); fnErr != nil {
		err = fnErr
		return
	}
	err = t.Err()
}

// commitLoop is the committer.
func (s *Store) commitLoop() {
	defer close(s.stopped)
	defer s.idleReads.drop()    // They would hold up who closes the database.
	debug.SetPanicOnFault(true) // See Store.recovered.
	s.idleReads.keep()
	for {
		updates := s.queue.take(s.gathering.next())
		if updates == nil {
			return
		}
		s.idleReads.drop()
		for len(updates) > 0 {
			updates = s.commitGroup(updates)
		}
		s.idleReads.keep()
	}
}

// answer is what an update is told when its group is committed.
type answer struct {
	update *update
	err    error // nil for an update that wrote; else its verdict, which rests on what the group wrote
	wrote  bool
}

// group is a transaction of bbolt and the updates that it is for.
type group struct {
	tx            *bolt.Tx
	answers       []answer
	updates       int             // that wrote
	scopes        map[string]bool // they wrote to
	writes, bytes int             // of them
}

// commitGroup runs updates until a group is full, commits it, and returns those that did not fit.
func (s *Store) commitGroup(updates []*update) []*update {
	tx, err := s.beginUpdate()
	if err != nil {
		for _, u := range updates {
			u.done <- err
		}
		return nil
	}
	g := &group{tx: tx, scopes: map[string]bool{}}
	s.paths.begin(s.pagesOf(tx))
	for len(updates) > 0 && g.writes < maxGroupWrites && g.bytes < maxGroupBytes {
		next := updates[0]
		updates = updates[1:]
		if err := s.runUpdate(g, next); err != nil {
			_ = tx.Rollback() // It fails only where it was done already.
			s.log.Error("apply update failed, taking no more writes", "error", err)
			s.readOnly.Store(true)
			g.fail(fmt.Errorf("apply update: %w", kv.ErrCorrupt))
			return updates
		}
	}
	if g.updates == 0 {
		_ = tx.Rollback()
		return updates
	}
	s.db.AllocSize = growth(tx.Size())
	began := s.now()
	if err := s.commit(tx); err != nil {
		g.fail(err)
		return updates
	}
	ended := s.now()
	took := ended.Sub(began)
	s.gathering = gathering{callers: len(g.answers) + len(updates) + s.queue.len(), took: took, ended: ended}
	s.observed(g, took)
	s.commits.Add(1)
	s.updates.Add(int64(g.updates))
	for _, a := range g.answers {
		a.update.done <- a.err
	}
	return updates
}

// observed tells who observes commits of one that was made.
func (s *Store) observed(g *group, took time.Duration) {
	observe := s.observe.Load()
	if observe == nil {
		return
	}
	stats := g.tx.Stats()
	(*observe)(kv.Commit{
		Updates:    g.updates,
		WriteCalls: stats.GetWrite(),
		// What was allocated is written, and so is a meta page.
		WrittenBytes: stats.GetPageAlloc() + pageSize,
		Took:         took,
		Write:        stats.GetWriteTime(),
	})
}

func (s *Store) beginUpdate() (*bolt.Tx, error) {
	if s.readOnly.Load() {
		return nil, fmt.Errorf("begin transaction: %w", kv.ErrReadOnly)
	}
	return begin(s.db, true)
}

// runUpdate lends the transaction to the caller of an update and applies what it wrote. An error means that the
// transaction is spoilt.
func (s *Store) runUpdate(g *group, u *update) error {
	scope, err := s.newSnapshot(g.tx, u.scope)
	if err != nil {
		u.done <- err
		return nil
	}
	t := txn.NewTx(scope, txn.NewLimits(s.options.OverheadBytes))
	select {
	case u.turn <- t:
	case <-u.ctx.Done(): // Its caller sees that too, and goes.
		return nil
	}
	err = <-u.ran
	writes, bytes := t.Size()
	if err != nil || writes == 0 {
		if g.scopes[u.scope] {
			// The verdict may rest on writes that are not durable yet.
			g.answers = append(g.answers, answer{update: u, err: err})
		} else {
			u.done <- err
		}
		return nil
	}
	g.answers = append(g.answers, answer{update: u, wrote: true})
	g.updates++
	g.scopes[u.scope] = true
	g.writes += writes
	g.bytes += bytes
	for key, value := range t.Writes() {
		if err := scope.put(key, value); err != nil {
			return err
		}
	}
	return nil
}

// fail answers the updates of a group that was not committed, or may not have been.
func (g *group) fail(err error) {
	for _, a := range g.answers {
		if a.wrote {
			a.update.done <- err
		} else { // It wrote nothing, and what it read may never have been.
			a.update.done <- fmt.Errorf("update: group was not committed: %w", kv.ErrBusy)
		}
	}
}

// commit commits a group. What an error of bbolt means depends on how far the commit came. It writes the new pages to
// free places and syncs them before it writes the meta page that makes them part of the tree:
//
//   - Until the meta page is written nothing was committed, whatever failed. Where it was for lack of space, the next
//     commit may find some. Any other failure is a disk not to be trusted with more.
//   - Where the meta page was written but not synced, nobody can tell what the next start will find.
//
// Then, or when bbolt panicked, the store stops taking writes until it is opened again. The cause goes to the log,
// since it may name paths.
func (s *Store) commit(tx *bolt.Tx) error {
	id := tx.ID()
	err := s.tryCommit(tx)
	if err == nil {
		s.space.found(s.log)
		return nil
	}
	current, idErr := s.currentID()
	unknown := idErr != nil || current >= id
	if !unknown && isFull(err) {
		s.space.lacked(s.log, s.now(), err)
		return fmt.Errorf("commit: %w", kv.ErrFull)
	}
	s.readOnly.Store(true)
	s.log.Error("commit failed, taking no more writes until restart", "error", err, "outcome_unknown", unknown)
	switch {
	case unknown:
		return fmt.Errorf("commit: %w", kv.ErrUnknown)
	case errors.Is(err, kv.ErrCorrupt):
		return fmt.Errorf("commit: %w", kv.ErrCorrupt)
	}
	return fmt.Errorf("commit: %w", kv.ErrReadOnly)
}

func (s *Store) tryCommit(tx *bolt.Tx) (err error) {
	defer func() { _ = tx.Rollback() }() // Lets go of bbolt's locks after a panic; else it was done already.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer s.recovered(&err)
	return s.commitTx(tx)
}

// currentID returns the id of the last transaction whose meta page was written.
func (s *Store) currentID() (id int, err error) {
	defer s.recovered(&err)
	err = s.db.View(func(tx *bolt.Tx) error {
		id = tx.ID()
		return nil
	})
	return id, err
}

func isFull(err error) bool {
	if errors.Is(err, bolterrors.ErrMaxSizeReached) {
		return true
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// bbolt flattens the errors of growing the file into text.
		if errors.Is(err, errno) || strings.Contains(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
