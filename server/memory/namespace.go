package memory

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// ErrNoNamespace means that a namespace holds nothing.
var ErrNoNamespace = errors.New("no such namespace")

// Namespace is what is known of a namespace.
type Namespace struct {
	Name      string
	Settings  Settings // its own
	Effective Settings // in force: its own, else the defaults; no field is nil
	Revision  int64
	FileCount int64
	Size      int64     // bytes of all files
	Created   time.Time // zero for a namespace never written
}

// ValidateNamespace returns an *InvalidError for a name that is outside the grammar: segments of
// [a-z0-9][a-z0-9._-]* joined by "/", at most MaxNamespaceBytes bytes.
func ValidateNamespace(name string) error {
	const rule = "segments of a-z, 0-9, '.', '_' and '-' that start with a letter or digit, joined by '/', " +
		"at most 200 bytes, such as acme/support/user-42"
	invalid := func(what string) error {
		return &InvalidError{Field: "namespace", Text: "namespace " + what + "; it must be " + rule}
	}
	if name == "" {
		return invalid("is empty")
	}
	if len(name) > MaxNamespaceBytes {
		return invalid("is too long")
	}
	start := true
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			start = false
		case c == '/' && !start:
			start = true
		case (c == '.' || c == '_' || c == '-') && !start:
		case c == '/' || c == '.' || c == '_' || c == '-':
			return invalid("has a segment that does not start with a letter or digit")
		default:
			return invalid("has a character that is not allowed")
		}
	}
	if start {
		return invalid("ends with '/'")
	}
	return nil
}

// Namespace returns a namespace; one never written is empty.
func (m *Memory) Namespace(ctx context.Context, name string) (Namespace, error) {
	var ns Namespace
	err := m.view(ctx, name, func(t *tree) error {
		ns = t.namespace(name)
		return nil
	}, Path{})
	return ns, err
}

func (t *tree) namespace(name string) Namespace {
	root := t.get(Path{})
	return Namespace{
		Name:      name,
		Settings:  t.header.settings,
		Effective: t.settings,
		Revision:  t.header.revision,
		FileCount: root.files,
		Size:      root.size,
		Created:   instant(t.header.created),
	}
}

// NamespaceRange is a range of names of namespaces in byte order.
type NamespaceRange struct {
	Prefix string // of every name in the range
	Exact  bool   // the only name is Prefix
}

// NamespaceFilter says which namespaces are listed: those that are in one of the ranges, which are in byte order and
// apart, and for which Match returns true; nil is all of them. Others are not looked at.
type NamespaceFilter struct {
	Ranges []NamespaceRange
	Match  func(name string) bool
}

// AllNamespaces is the filter that lists all.
var AllNamespaces = NamespaceFilter{Ranges: []NamespaceRange{{}}}

// namesStep is how many names are read at a time. So few names of others are read beyond the end of a range that how
// long a listing takes tells nothing of them.
const namesStep = 16

// Namespaces returns at most limit of the namespaces after a name that hold anything, in byte order. next is what to
// pass as after for those that follow, "" where there are none; it is the name of a namespace that was returned.
func (m *Memory) Namespaces(ctx context.Context, filter NamespaceFilter, after string, limit int) (
	namespaces []Namespace, next string, err error,
) {
	for _, r := range filter.Ranges {
		for {
			names, err := m.namesIn(ctx, r, after)
			if err != nil {
				return nil, "", err
			}
			for _, name := range names {
				after = name
				if filter.Match != nil && !filter.Match(name) {
					continue
				}
				ns, err := m.Namespace(ctx, name)
				switch {
				case err != nil:
					return nil, "", err
				case ns.Revision == 0: // never written, or being deleted
				case len(namespaces) == limit:
					return namespaces, namespaces[limit-1].Name, nil
				default:
					namespaces = append(namespaces, ns)
				}
			}
			if r.Exact || len(names) < namesStep {
				break
			}
		}
	}
	return namespaces, "", nil
}

// namesIn returns the next namesStep names in a range that come after another; fewer are the last. There may be nothing
// in that of an exact range.
func (m *Memory) namesIn(ctx context.Context, r NamespaceRange, after string) ([]string, error) {
	switch {
	case after >= r.Prefix && (r.Exact || !strings.HasPrefix(after, r.Prefix)): // beyond the range
		return nil, nil
	case r.Exact:
		return []string{r.Prefix}, nil
	case r.Prefix > after: // The name before the first that has the prefix.
		last := len(r.Prefix) - 1
		after = r.Prefix[:last] + string(r.Prefix[last]-1) + "\x7f"
	}
	names, err := m.store.Scopes(ctx, after, namesStep)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if !strings.HasPrefix(name, r.Prefix) {
			return names[:i], nil
		}
	}
	return names, nil
}

// UpdateSettings changes settings of a namespace and returns it as it is then. Settings out of their range, and names
// that are none, are an *InvalidError. The other errors are those of Do.
func (m *Memory) UpdateSettings(ctx context.Context, name string, change SettingsChange, requestID string) (
	Namespace, error,
) {
	if err := change.validate(); err != nil {
		return Namespace{}, err
	}
	s := step{cmd: change}
	if _, err := m.update(ctx, name, newRequest(requestID, s), s); err != nil {
		return Namespace{}, err
	}
	return m.Namespace(ctx, name)
}

// DeleteNamespace removes a namespace with everything in it. To readers it is empty at once; where it is too large for
// one transaction, the rest goes in several, and what a crash left is removed by the next change. Where nothing of it
// can be read or written, since its data key is damaged, it stays damaged to readers until all of it is gone.
// ErrNoNamespace where it holds nothing.
func (m *Memory) DeleteNamespace(ctx context.Context, name string) error {
	_, err := m.update(ctx, name, request{}, step{cmd: deleteNamespace{}})
	if errors.Is(err, kv.ErrCorrupt) { // What is to be deleted need not be read.
		err = m.store.Update(ctx, name, func(tx kv.Tx) error {
			h := header{deleting: true}
			return tx.Put(namespaceKey, h.encode())
		})
	}
	damaged := errors.Is(err, kv.ErrCorrupt) // It takes no mark either.
	if err != nil && !damaged {
		return err
	}
	return m.purge(ctx, name, damaged)
}

// deleteNamespace marks a namespace as one to be deleted.
type deleteNamespace struct{}

// Name implements Command.
func (deleteNamespace) Name() string { return "delete_namespace" }

// Writes implements Command.
func (deleteNamespace) Writes() bool { return true }

func (deleteNamespace) paths() (paths [2]string, n int) { return paths, 0 }
func (deleteNamespace) fields() []string                { return nil }

func (deleteNamespace) run(t *tree, _ []Path) (Result, error) {
	if t.header.revision == 0 {
		return Result{}, ErrNoNamespace
	}
	t.header.deleting, t.changed = true, true
	return Result{}, nil
}

// purge removes what is left of a namespace that is being deleted, or is so damaged that nobody can tell.
func (m *Memory) purge(ctx context.Context, name string, damaged bool) error {
	const step = kv.MaxWrites / 2
	for {
		finished := false
		err := m.store.Update(ctx, name, func(tx kv.Tx) error {
			finished = true
			t := &tree{reader: tx}
			_, err := t.read(nil)
			switch {
			case damaged && errors.Is(err, kv.ErrCorrupt): // It still is the one to be deleted.
			case err != nil || !t.header.deleting:
				return err // not deleting: someone else finished it
			}
			var keys [][]byte
			scanned := 0
			err = tx.Scan(kv.ScanOptions{KeysOnly: true, Limit: step}, func(key, _ []byte) error {
				scanned++
				if string(key) != string(namespaceKey) {
					keys = append(keys, key)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if finished = scanned < step; finished {
				keys = append(keys, namespaceKey)
			}
			for _, key := range keys {
				if err := tx.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || finished {
			return err
		}
	}
}
