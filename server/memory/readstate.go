package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// readStateKey is the key, in kv.ReservedScope, of what the store tells about recorded views as a whole.
var readStateKey = []byte("memory.reads")

// readState is the record of that key.
type readState struct {
	complete bool  // every view before the last stop was recorded, and there was none since
	floor    int64 // every file counts as viewed at this time
}

// flagComplete is a flag of a readState.
const flagComplete = 1 << 0

func (s readState) encode() []byte {
	var flags byte
	if s.complete {
		flags |= flagComplete
	}
	return seal(readStateKey, binary.AppendVarint([]byte{recordVersion, flags}, s.floor))
}

func decodeReadState(sealed []byte) (readState, error) {
	b, err := unseal(readStateKey, sealed)
	if err != nil {
		return readState{}, err
	}
	d := decoder{rest: b}
	d.version()
	flags := d.byte()
	s := readState{complete: flags&flagComplete != 0, floor: d.varint()}
	return s, d.finish(readStateKey)
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
		if err != nil {
			return err
		}
		if values[0] != nil {
			// One that cannot be read is like none: not complete.
			if state, err = decodeReadState(values[0]); err != nil {
				state = readState{}
			}
		}
		if !state.complete {
			state.floor = max(state.floor, now)
		}
		state.complete = false
		return tx.Put(readStateKey, state.encode())
	})
	if err != nil {
		return fmt.Errorf("begin to record views: %w", err)
	}
	m.reads.start(state.floor)
	return nil
}

// Stop records all views, and then that they are complete. It is called after the last command has ended. Where it
// fails, or is not called, every file counts as viewed when Start is called the next time.
func (m *Memory) Stop(ctx context.Context) error {
	if err := m.Start(ctx); err != nil {
		return err
	}
	const attempts = 3 // A file that was moved takes two.
	for range attempts {
		if _, err := m.FlushReads(ctx); err != nil {
			return err
		}
		if floor, complete := m.reads.complete(); complete {
			state := readState{complete: true, floor: floor}
			err := m.store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
				return tx.Put(readStateKey, state.encode())
			})
			if err != nil {
				return fmt.Errorf("record that views are complete: %w", err)
			}
			return nil
		}
	}
	return errors.New("record views: there are still commands")
}

func (r *reads) isStarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// start takes over the floor that is stored; one that rose meanwhile stays.
func (r *reads) start(floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.floor = true, max(r.floor, floor)
}

// complete tells whether all views are recorded, and the floor.
func (r *reads) complete() (floor int64, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.floor, len(r.pending) == 0
}
