package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// readStateKey is the key, in kv.ReservedScope, of what the store tells about recorded views as a whole.
var readStateKey = []byte("memory.reads")

// maxMissing is the most namespaces that Stop leaves out.
const maxMissing = 100

// readState is the record of that key.
type readState struct {
	complete bool             // every view before the last stop was recorded, and there was none since
	stopped  int64            // when that was
	floor    int64            // every file counts as viewed at this time
	missing  map[string]int64 // the floors of namespaces whose views could not be recorded
}

// flagComplete is a flag of a readState.
const flagComplete = 1 << 0

func (s readState) encode() []byte {
	var flags byte
	if s.complete {
		flags |= flagComplete
	}
	b := binary.AppendVarint([]byte{recordVersion, flags}, s.floor)
	b = binary.AppendVarint(b, s.stopped)
	b = binary.AppendUvarint(b, uint64(len(s.missing)))
	for _, namespace := range slices.Sorted(maps.Keys(s.missing)) {
		b = binary.AppendVarint(appendText(b, namespace), s.missing[namespace])
	}
	return seal(readStateKey, b)
}

func decodeReadState(sealed []byte) (readState, error) {
	b, err := unseal(readStateKey, sealed)
	if err != nil {
		return readState{}, err
	}
	d := decoder{rest: b}
	d.version()
	flags := d.byte()
	s := readState{complete: flags&flagComplete != 0, floor: d.varint(), stopped: d.varint()}
	for range d.count() {
		if s.missing == nil {
			s.missing = make(map[string]int64)
		}
		namespace := d.text()
		s.missing[namespace] = d.varint()
	}
	return s, d.finish(readStateKey)
}

// begun is the state when memoryd starts: not complete, and its floor is now unless the clock surely went on from the
// stop.
func (s readState) begun(now int64) readState {
	if off := time.Duration(now - s.stopped); !s.complete || off < -maxStep || off > maxOff {
		return readState{floor: now}
	}
	s.complete = false
	return s
}

// Start has to succeed before files expire; until then every file counts as viewed just now. It is called before the
// first command, so that the views of a process that crashes are known to be missing. Where it fails it may be called
// again; after it has succeeded it does nothing.
func (m *Memory) Start(ctx context.Context) error {
	if m.reads.isStarted() {
		return nil
	}
	now := m.now().UnixNano()
	var state readState
	err := m.store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
		state = readState{}
		values, err := tx.Get(readStateKey)
		// One that cannot be read is like none: not complete.
		switch {
		case errors.Is(err, kv.ErrCorrupt):
		case err != nil:
			return err
		case values[0] != nil:
			if state, err = decodeReadState(values[0]); err != nil {
				state = readState{}
			}
		}
		state = state.begun(now)
		return tx.Put(readStateKey, state.encode())
	})
	if err != nil {
		return fmt.Errorf("begin to record views: %w", err)
	}
	m.reads.start(state)
	return nil
}

// Stop records all views, and then that they are complete. It is called after the last command has ended. Where it
// fails, or is not called, every file counts as viewed when Start is called the next time. Namespaces that are damaged
// are part of the error, and do not make it fail for the others.
func (m *Memory) Stop(ctx context.Context) error {
	if err := m.Start(ctx); err != nil {
		return err
	}
	const attempts = 3 // A file that was moved takes two.
	for range attempts {
		_, damaged, err := m.flushReads(ctx)
		if err != nil {
			return joinDamaged(damaged, err)
		}
		state := m.reads.stop(damaged)
		if len(state.missing) > maxMissing {
			return joinDamaged(damaged, errors.New("record views: too many namespaces are damaged"))
		}
		if !state.complete {
			continue
		}
		err = m.store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
			return tx.Put(readStateKey, state.encode())
		})
		if err != nil {
			err = fmt.Errorf("record that views are complete: %w", err)
		}
		return joinDamaged(damaged, err)
	}
	return errors.New("record views: there are still commands")
}

func (r *reads) isStarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// start takes over what is stored; floors that rose meanwhile stay.
func (r *reads) start(state readState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.floor = true, max(r.floor, state.floor)
	for namespace, at := range state.missing {
		r.raise(namespace, at)
	}
}

// stop is the state to store. It is complete where all views are recorded but those of the namespaces that are damaged.
func (r *reads) stop(damaged map[string]error) readState {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := readState{complete: true, stopped: r.observe().UnixNano(), missing: make(map[string]int64)}
	state.floor = r.floor
	for namespace, at := range r.missing {
		if at > r.floor { // else the floor covers it
			state.missing[namespace] = at
		}
	}
	for id := range r.pending {
		if _, ok := damaged[id.namespace]; !ok {
			state.complete = false
		}
	}
	for namespace := range damaged {
		state.missing[namespace] = state.stopped
	}
	return state
}
