package memory

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// When a file was last viewed decides whether it expires. A view is only noted in memory, so that it costs nothing and
// never fails, and FlushReads records what was noted, with no revision. So that this may only lengthen the life of a
// file, and never shorten it:
//
//   - A view within readInterval of one that was noted is not noted again. So a file counts as viewed readInterval
//     after the time that is noted or recorded.
//   - What is noted and not recorded counts too. It is kept until it was recorded, or the file is gone. A file that was
//     moved meanwhile is found by its id.
//   - Every file counts as viewed at a time that is called the floor. Where there is no room to note a view, the floor
//     of its namespace rises to it.
//
// Times come from a clock that somebody may set, and the time that counts against a file is that in which memoryd ran
// and the file could be viewed. So the floor is taken anew, which is that every file counts as viewed now:
//
//   - Where the clock has moved by more than maxStep against the time that has passed, either way. Every look at the
//     clock compares the two, also those for the times that are stored. While a machine sleeps that time stands still.
//   - Where Start finds that memoryd has not stopped cleanly, with all views recorded; the store tells. What was noted
//     is lost in a crash.
//   - Where Start finds that it was stopped for longer than maxOff, or that the clock is behind the time of the stop.
//
// Between one such moment and the next the clock goes as time passes. A file that was last viewed before it counts from
// the floor, however wrong the times are that were stored before, and one that was viewed since from a time of the same
// clock. Neither can be cut short. The floor need not be stored when it changes: if it is lost in a crash, a later one
// takes its place. It may fall where the clock goes back, so that a clock that was ahead for a moment does not end all
// expiry until that time has come.
//
// Where a namespace is damaged so that its views cannot be recorded, Stop leaves them out, and it has a floor of its
// own, the time of the stop.
//
// What is recorded of a file that is deleted goes with it in the same transaction.

const (
	// readInterval is how often the view of a file is recorded at most.
	readInterval = time.Hour
	// maxPendingReads is how many files may have a view that is not recorded yet; at half of that FlushReads is due.
	maxPendingReads = 10_000
	// maxNotedReads is of how many files it is known without a transaction that a view was noted lately; about 150 bytes
	// each. Others are noted again, and then FlushReads finds that they are recorded.
	maxNotedReads = 1 << 16
	// readsPerUpdate is how many views one transaction records.
	readsPerUpdate = 1000
	// maxOff is how long memoryd may be stopped, for an upgrade say, without every file counting as viewed then.
	maxOff = time.Hour
)

// fileID tells a file from all others, also when it is moved.
type fileID struct {
	namespace string
	id        uint64
}

// read is a view of a file that is not recorded yet.
type read struct {
	id   uint64
	path Path // where the file was
	at   int64

	recorded int64 // when the store says by now that it was viewed; 0 where it says nothing
}

// reads are the views that are not recorded yet, and what is known of those that are.
type reads struct {
	capacity int
	due      chan struct{} // has something where FlushReads is due before its time
	clock    func() time.Time
	elapsed  func(now time.Time) time.Duration // how long memoryd has run when clock has told now

	mu      sync.Mutex
	pending map[fileID]read
	noted   *simplelru.LRU[fileID, int64] // when a view was last noted
	started bool
	floor   int64            // every file counts as viewed at this time; it is known when started
	missing map[string]int64 // the floors of namespaces of which a view could not be noted, or not be recorded
	at      int64            // what the clock has told last
	ran     time.Duration    // elapsed at that time
}

// newReads returns reads with room for so many views that are not recorded, and so many that are. elapsed is how long
// memoryd has run; nil goes by the monotonic readings of the clock.
func newReads(clock func() time.Time, elapsed func() time.Duration, capacity, noted int) *reads {
	lru, err := simplelru.NewLRU[fileID, int64](noted, nil)
	if err != nil { // Only of a size that is not positive.
		panic(err)
	}
	begin := clock()
	r := &reads{
		capacity: capacity, due: make(chan struct{}, 1), pending: make(map[fileID]read), noted: lru,
		clock: clock, elapsed: func(now time.Time) time.Duration { return now.Sub(begin) }, at: begin.UnixNano(),
	}
	if elapsed != nil {
		r.elapsed = func(time.Time) time.Duration { return elapsed() }
	}
	r.ran = r.elapsed(begin)
	return r
}

// note notes that a file was viewed.
func (r *reads) note(namespace string, p Path, n *node, at int64) {
	id := fileID{namespace, n.id}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A file that is newer than the view of its id is one of another namespace that had the name.
	if last, ok := r.noted.Get(id); ok && at-last < int64(readInterval) && last >= n.created {
		return
	}
	if _, ok := r.pending[id]; !ok && len(r.pending) >= r.capacity {
		r.raise(namespace, at)
	} else {
		r.pending[id] = read{id: n.id, path: p, at: at}
		r.noted.Add(id, at)
	}
	if len(r.pending) >= (r.capacity+1)/2 {
		select {
		case r.due <- struct{}{}:
		default:
		}
	}
}

// raise lets every file of a namespace count as viewed at a time. So few namespaces have a floor of their own that they
// fit into the state that is stored: the lowest of more becomes that of all.
func (r *reads) raise(namespace string, at int64) {
	if r.missing == nil {
		r.missing = make(map[string]int64)
	}
	r.missing[namespace] = max(r.missing[namespace], at)
	if len(r.missing) <= maxMissing {
		return
	}
	lowest := namespace
	for other, floor := range r.missing {
		if floor < r.missing[lowest] {
			lowest = other
		}
	}
	r.floor = max(r.floor, r.missing[lowest])
	delete(r.missing, lowest)
}

// unrecorded returns the views that are not recorded yet, by namespace.
func (r *reads) unrecorded() map[string][]read {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]read)
	for id, read := range r.pending {
		all[id.namespace] = append(all[id.namespace], read)
	}
	return all
}

// settle forgets views that are recorded, or whose files are gone.
func (r *reads) settle(namespace string, done []read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, read := range done {
		id := fileID{namespace, read.id}
		if r.pending[id].at != read.at { // It was viewed again.
			continue
		}
		delete(r.pending, id)
		if read.recorded != 0 {
			r.noted.Add(id, read.recorded) // Only what is recorded covers the views after it.
		}
	}
}

// move notes where a file is now.
func (r *reads) move(namespace string, id uint64, p Path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if read, ok := r.pending[fileID{namespace, id}]; ok {
		read.path = p
		r.pending[fileID{namespace, id}] = read
	}
}

// last returns when a file was viewed, as far as that is not recorded; 0 where it was not.
func (r *reads) last(namespace string, id uint64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[fileID{namespace, id}].at
}

// ReadsDue is sent to where so many views wait to be recorded that FlushReads should be called at once.
func (m *Memory) ReadsDue() <-chan struct{} { return m.reads.due }

// FlushReads records when files were viewed, as far as it is not recorded yet, and returns of how many it did. Views
// that it cannot record are kept for the next time, and count meanwhile. A namespace that is damaged is left out, and
// is part of the error; another error ends the call.
func (m *Memory) FlushReads(ctx context.Context) (recorded int, err error) {
	recorded, damaged, err := m.flushReads(ctx)
	return recorded, joinDamaged(damaged, err)
}

// flushReads is FlushReads; damaged are the errors of the namespaces that are.
func (m *Memory) flushReads(ctx context.Context) (recorded int, damaged map[string]error, err error) {
	all := m.reads.unrecorded()
	damaged = make(map[string]error)
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		n, err := m.recordReads(ctx, namespace, all[namespace])
		recorded += n
		if err == nil {
			continue
		}
		err = fmt.Errorf("record views of namespace %s: %w", namespace, err)
		if !errors.Is(err, kv.ErrCorrupt) { // The others would fail like this one.
			return recorded, damaged, err
		}
		damaged[namespace] = err
	}
	return recorded, damaged, nil
}

// joinDamaged is the error of what has gone on without the namespaces that are damaged.
func joinDamaged(damaged map[string]error, err error) error {
	var problems []error
	for _, namespace := range slices.Sorted(maps.Keys(damaged)) {
		problems = append(problems, damaged[namespace])
	}
	return errors.Join(append(problems, err)...)
}

// recordReads records views of files of one namespace.
func (m *Memory) recordReads(ctx context.Context, namespace string, reads []read) (recorded int, err error) {
	slices.SortFunc(reads, func(a, b read) int { return cmp.Compare(a.id, b.id) })
	var moved []read
	for some := range slices.Chunk(reads, readsPerUpdate) {
		var f readsFlush
		err := m.store.Update(ctx, namespace, func(tx kv.Tx) error {
			f = readsFlush{}
			return f.run(tx, some)
		})
		if err != nil {
			return recorded, inNamespace(namespace, err)
		}
		recorded += f.recorded
		moved = append(moved, f.moved...)
		m.reads.settle(namespace, f.settled)
	}
	if len(moved) == 0 {
		return recorded, nil
	}
	return recorded, m.followMoved(ctx, namespace, moved)
}

// readsFlush is a transaction that records views.
type readsFlush struct {
	recorded int
	settled  []read // there is nothing left to do for
	moved    []read // the file is not where it was
}

func (f *readsFlush) run(tx kv.Tx, reads []read) error {
	keys := [][]byte{namespaceKey}
	for _, r := range reads {
		keys = append(keys, entryKey(r.path), readKey(r.id))
	}
	values, err := tx.Get(keys...)
	if err != nil {
		return err
	}
	var h header
	if values[0] != nil {
		if h, err = decodeHeader(values[0]); err != nil {
			return err
		}
	}
	if h.deleting || h.revision == 0 { // The files are gone, and so the namespace must not have a key more.
		f.settled = reads
		return nil
	}
	for i, r := range reads {
		key, entry, last := keys[2+2*i], values[1+2*i], values[2+2*i]
		if here, err := isFile(keys[1+2*i], entry, r.id); err != nil {
			return err
		} else if !here {
			f.moved = append(f.moved, r)
			continue
		}
		if r.recorded, err = decodeRead(key, last); err != nil {
			return err
		}
		if r.at-r.recorded >= int64(readInterval) { // else it is covered by what is recorded
			r.recorded = r.at
			if err := tx.Put(key, encodeRead(key, r.at)); err != nil {
				return err
			}
			f.recorded++
		}
		f.settled = append(f.settled, r)
	}
	return nil
}

// isFile tells whether the record of an entry, nil where there is none, is that of the file with an id.
func isFile(key, value []byte, id uint64) (bool, error) {
	if value == nil {
		return false, nil
	}
	n, err := decodeNode(key, value)
	if err != nil {
		return false, err
	}
	return !n.dir && n.id == id, nil
}

// followMoved finds out where files are now that are not where they were viewed. Those that are nowhere were deleted:
// no other file ever gets their id.
func (m *Memory) followMoved(ctx context.Context, namespace string, moved []read) error {
	at := make(map[uint64]Path, len(moved))
	err := m.view(ctx, namespace, func(t *tree) error {
		clear(at)
		wanted := make(map[uint64]bool, len(moved))
		for _, r := range moved {
			wanted[r.id] = true
		}
		opts := kv.ScanOptions{Prefix: []byte{entryPrefix}, From: levelPrefix(Path{}, 1)}
		return t.reader.Scan(opts, func(key, value []byte) error {
			n, err := decodeNode(key, value)
			if err == nil && !n.dir && wanted[n.id] {
				at[n.id] = keyPath(key)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	var gone []read
	for _, r := range moved {
		if p, ok := at[r.id]; ok {
			m.reads.move(namespace, r.id, p)
		} else {
			gone = append(gone, r)
		}
	}
	m.reads.settle(namespace, gone)
	return nil
}

// readKey is the key of when the file with an id was last viewed.
func readKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{readPrefix}, id) }

func encodeRead(key []byte, at int64) []byte {
	return seal(key, binary.AppendVarint([]byte{recordVersion}, at))
}

// decodeRead reads when a file was last viewed: 0 where that is not recorded.
func decodeRead(key, sealed []byte) (int64, error) {
	if sealed == nil {
		return 0, nil
	}
	b, err := unseal(key, sealed)
	if err != nil {
		return 0, err
	}
	d := decoder{rest: b}
	d.version()
	at := d.varint()
	return at, d.finish(key)
}
