package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

const (
	// expireRemovals is the most files that one call of Expire removes.
	expireRemovals = 500
	// expireStep is the most files that one transaction removes: few, since writers wait for it, and each may need some
	// 650 writes.
	expireStep = 16
	// expireNamespaces is how many names of namespaces are read at a time.
	expireNamespaces = 100
)

// expiryCursorKey is the key, in kv.ReservedScope, of where the next Expire goes on.
var expiryCursorKey = []byte("memory.expiry")

// ExpiredFile is a file that Expire has removed.
type ExpiredFile struct {
	Namespace string
	Path      string
	Revision  int64 // that the removal made
	// Unknown tells that the answer of the store was lost: the file may be removed, or be there and expire again.
	Unknown bool
}

// ExpiryReport is what Expire has done.
type ExpiryReport struct {
	// Removed is how many files it has removed, without those of which that is unknown.
	Removed int
	// More tells that it has ended before it had seen every namespace, since it had enough to do.
	More bool
}

// Expire removes files that expire, as the settings of their namespaces say, and tells removed of each. It looks at
// 10,000 entries or namespaces and removes 500 files at most, and goes on there the next time, also in another process.
// Directories stay. A namespace that is damaged is left out, and is part of the error; another error ends the call.
// A file that is viewed while it is being removed may go. removed is also told of files whose removal got lost in the
// store, so that none goes unsaid.
func (m *Memory) Expire(ctx context.Context, removed func(ExpiredFile)) (ExpiryReport, error) {
	stored, err := m.readExpiryCursor(ctx)
	damaged := errors.Is(err, kv.ErrCorrupt) // like none, and written anew
	if err != nil && !damaged {
		return ExpiryReport{}, fmt.Errorf("read where to go on: %w", err)
	}
	p := &expiryPass{memory: m, removed: removed, cursor: stored, entries: expiryEntries, removals: expireRemovals}
	err = p.run(ctx)
	if damaged || p.cursor.namespace != stored.namespace || !slices.Equal(p.cursor.entry, stored.entry) {
		err = errors.Join(err, m.writeExpiryCursor(context.WithoutCancel(ctx), p.cursor))
	}
	return p.report, errors.Join(errors.Join(p.problems...), err)
}

// expiryPass is one call of Expire.
type expiryPass struct {
	memory   *Memory
	removed  func(ExpiredFile)
	cursor   expiryCursor
	names    []string // that follow the namespace of the cursor
	report   ExpiryReport
	problems []error // about namespaces that are left out

	entries, removals int // what is left to do
}

// run goes on until all namespaces were seen, or there is nothing left to do.
func (p *expiryPass) run(ctx context.Context) error {
	for p.entries > 0 && p.removals > 0 {
		if p.cursor.entry == nil {
			if more, err := p.nextNamespace(ctx); err != nil || !more {
				return err
			}
		}
		err := p.page(ctx)
		if errors.Is(err, kv.ErrCorrupt) {
			p.problems = append(p.problems, fmt.Errorf("namespace %s: %w", p.cursor.namespace, err))
			p.cursor.entry = nil
			p.entries-- // not to see only damage for ever
			continue
		}
		if err != nil {
			return fmt.Errorf("namespace %s: %w", p.cursor.namespace, err)
		}
	}
	p.report.More = true
	return nil
}

// nextNamespace moves the cursor to the first entry of the next namespace, and tells whether there is one.
func (p *expiryPass) nextNamespace(ctx context.Context) (bool, error) {
	if len(p.names) == 0 {
		var err error
		if p.names, err = p.memory.store.Scopes(ctx, p.cursor.namespace, expireNamespaces); err != nil {
			return false, fmt.Errorf("read namespaces: %w", err)
		}
	}
	if len(p.names) == 0 {
		p.cursor = expiryCursor{}
		return false, nil
	}
	p.cursor = expiryCursor{namespace: p.names[0], entry: entryKey(Path{})}
	p.names = p.names[1:]
	return true, nil
}

// page looks at the entries after the cursor, and moves it.
func (p *expiryPass) page(ctx context.Context) error {
	namespace := p.cursor.namespace
	var page expiringPage
	err := p.memory.view(ctx, namespace, func(t *tree) (err error) {
		x := p.memory.expiry(namespace, *t.settings.ExpireUnreadAfter, time.Time{})
		page, err = t.expiring(x, p.cursor.entry, p.entries, p.removals)
		return err
	})
	if err != nil {
		return err
	}
	for files := range slices.Chunk(page.files, expireStep) {
		if err := p.remove(ctx, files); err != nil {
			return err
		}
	}
	p.entries -= max(1, page.entries) // A namespace in which nothing expires counts too.
	p.cursor.entry = page.key
	if page.last {
		p.cursor.entry = nil
	}
	return nil
}

// remove removes files that still expire.
func (p *expiryPass) remove(ctx context.Context, files []expiringFile) error {
	namespace := p.cursor.namespace
	steps := make([]step, len(files))
	for i, file := range files {
		steps[i] = step{cmd: expire{p.memory, namespace, file.node.id}, paths: []Path{file.path}}
	}
	results, err := p.memory.update(ctx, namespace, request{}, steps...)
	unknown := errors.Is(err, kv.ErrUnknown)
	if err != nil && !unknown {
		return err
	}
	for _, r := range results {
		if r.Entry == nil {
			continue
		}
		p.removed(ExpiredFile{Namespace: namespace, Path: r.Entry.Path, Revision: r.Revision, Unknown: unknown})
		if !unknown {
			p.report.Removed++
			p.removals--
		}
	}
	return err
}

// expire removes a file if it is still the one with an id, and still expires: everything is looked at again.
type expire struct {
	memory    *Memory
	namespace string
	id        uint64
}

// Name implements Command.
func (expire) Name() string { return "expire" }

// Writes implements Command.
func (expire) Writes() bool { return true }

func (expire) paths() (paths [2]string, n int) { return paths, 0 }
func (expire) fields() []string                { return nil }

func (c expire) run(t *tree, paths []Path) (Result, error) {
	p := paths[0]
	n := t.get(p)
	if n == nil || n.dir || n.id != c.id {
		return Result{}, nil
	}
	key := readKey(n.id)
	recorded, err := t.reader.Get(key)
	if err != nil {
		return Result{}, err
	}
	at, err := decodeRead(key, recorded[0])
	if err != nil {
		return Result{}, err
	}
	x := c.memory.expiry(c.namespace, *t.settings.ExpireUnreadAfter, time.Time{})
	if _, yes := x.expires(n, max(at, x.viewed(n.id))); !yes {
		return Result{}, nil
	}
	if err := t.remove(p, n); err != nil {
		return Result{}, err
	}
	return t.done("", p, n), nil
}

// expiryCursor is where Expire goes on: after an entry of a namespace, or with the next namespace where that is nil.
type expiryCursor struct {
	namespace string
	entry     []byte // its key
}

func (m *Memory) readExpiryCursor(ctx context.Context) (c expiryCursor, err error) {
	err = m.store.View(ctx, kv.ReservedScope, func(r kv.Reader) error {
		values, err := r.Get(expiryCursorKey)
		if err == nil && values[0] != nil {
			c = decodeExpiryCursor(values[0])
		}
		return err
	})
	return c, err
}

func (m *Memory) writeExpiryCursor(ctx context.Context, c expiryCursor) error {
	err := m.store.Update(ctx, kv.ReservedScope, func(tx kv.Tx) error {
		return tx.Put(expiryCursorKey, c.encode())
	})
	if err != nil {
		return fmt.Errorf("record where to go on: %w", err)
	}
	return nil
}

func (c expiryCursor) encode() []byte {
	b := appendText([]byte{recordVersion}, c.namespace)
	b = binary.AppendUvarint(b, uint64(len(c.entry)))
	return seal(expiryCursorKey, append(b, c.entry...))
}

// decodeExpiryCursor returns the beginning where a cursor cannot be read: it only saves work.
func decodeExpiryCursor(sealed []byte) expiryCursor {
	b, err := unseal(expiryCursorKey, sealed)
	if err != nil {
		return expiryCursor{}
	}
	d := decoder{rest: b}
	d.version()
	c := expiryCursor{namespace: d.text()}
	if entry := d.text(); entry != "" {
		c.entry = []byte(entry)
	}
	if d.finish(expiryCursorKey) != nil {
		return expiryCursor{}
	}
	return c
}
