package memory

import (
	"context"
	"sync"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// reading is a transaction that reads. Its parts are used again by later ones, so that nothing of it may be kept: what
// a command gives to its caller is a copy.
type reading struct {
	memory *Memory
	known  *recent // what is remembered of the namespace; nil where nobody has looked
	fn     func(*tree) error
	paths  []Path
	tree   tree
	trace  trace

	step   step // for runStep
	result Result

	// The methods as values, which would take memory each time.
	transaction func(kv.Reader) error
	runStep     func(*tree) error
}

var readings = sync.Pool{New: func() any {
	r := &reading{}
	r.transaction, r.runStep = r.run, r.doStep
	return r
}}

func (m *Memory) newReading() *reading {
	r := readings.Get().(*reading)
	r.memory = m
	return r
}

// release gives the parts of a reading to others.
func (r *reading) release() {
	r.memory, r.known, r.fn, r.step, r.result = nil, nil, nil, step{}, Result{}
	clear(r.paths)
	r.paths = r.paths[:0]
	r.tree.reset()
	r.trace.reset()
	readings.Put(r)
}

// view runs fn on a snapshot of a namespace, of which the paths were read.
func (m *Memory) view(ctx context.Context, namespace string, fn func(*tree) error, paths ...Path) error {
	r := m.newReading()
	defer r.release()
	r.paths = append(r.paths, paths...)
	return r.view(ctx, namespace, fn)
}

func (r *reading) view(ctx context.Context, namespace string, fn func(*tree) error) error {
	if err := ValidateNamespace(namespace); err != nil {
		return err
	}
	r.fn = fn
	err := r.memory.store.View(ctx, namespace, r.transaction)
	r.memory.remember(namespace, r.known, &r.trace, err)
	return inNamespace(namespace, err)
}

// run is the transaction.
func (r *reading) run(reader kv.Reader) error {
	r.trace.reset()
	t := &r.tree
	t.reset()
	t.reader, t.trace = reader, &r.trace
	if _, err := t.read(r.paths); err != nil {
		return err
	}
	t.settings = t.header.settings.or(r.memory.defaults)
	r.trace.settings = t.settings
	return r.fn(t)
}

// read executes a command that only reads.
func (m *Memory) read(ctx context.Context, namespace string, known *recent, cmd Command, call Call) (Result, error) {
	r := m.newReading()
	defer r.release()
	r.known = known
	var f *failure
	if r.step, f = newStep(cmd, call, r.paths); f != nil {
		return m.result(namespace, Result{}, f)
	}
	r.paths = r.step.paths
	err := r.view(ctx, namespace, r.runStep)
	return m.result(namespace, r.result, err)
}

func (r *reading) doStep(t *tree) (err error) {
	r.result, err = r.step.run(t)
	return err
}
