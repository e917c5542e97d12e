// Package memory is the memory tool (memory_20250818): the six commands on a tree of files and directories, with the
// texts that the model reads. It knows nothing of gRPC, and has no clock of its own.
//
// Every command is one transaction on a kv.Store, in the scope that has the name of the namespace. A command that
// fails because of what the model asked for changes nothing and gives a Result with a Reason; an error is for what is
// wrong with the namespace's name or the store.
//
// # Keys
//
// All keys of a namespace are in its scope. Numbers in keys are big-endian, so that they sort.
//
//	a id(8)                                  when the file with that id was last viewed, to the hour (reads.go)
//	e depth(2) name 0x00 name ...            entry: a file or directory (record.go); depth 0 is /memories itself
//	m digest(32)                             response to the request whose id has the digest (request.go)
//	n                                        namespace: revision, next id, settings (record.go)
//	o digest(32) part(2)                     the rest of a response of more than a KiB
//	0xff id(8) revision(8) chunk(4)          contents of a file: up to 64 KiB a chunk
//
// The key of an entry begins with its depth, so a listing of two levels is two scans, whatever lies deeper, and a
// subtree is one scan a depth until one is empty. With 0x00 between names, byte order is depth-first order with
// siblings in byte order. A directory carries the totals below it, kept up to date on the way up, so that listings
// and limits read no more than they show. Contents hang on the id of the file and on the revision at which they were
// written, and when it was viewed hangs on its id: a rename moves entries only.
//
// On an engine that writes whole pages, what a command changes should be in few of them. So the record of the namespace
// follows the responses, of which most changes add the last.
//
// kv.ReservedScope has two more keys: "memory.reads" tells whether all views were recorded when memoryd stopped
// (reads.go), and when that was, and "memory.expiry" where the next Expire goes on (expiry.go).
package memory

import (
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Root is the path of the directory that every namespace has.
const Root = "/memories"

// Limits of a tree. Their source is the contract of the memory tool, except where a comment says otherwise.
const (
	// MaxPathBytes is the most bytes a path may have.
	MaxPathBytes = 1024
	// MaxNameBytes is the most bytes a name in a path may have.
	MaxNameBytes = 255
	// MaxLines is the most lines a file may have to be viewed.
	MaxLines = 999_999
	// MaxFileBytes is the most bytes a file may have, whatever the settings say: what one transaction can carry.
	MaxFileBytes = 8 << 20
	// MaxNamespaceBytes is the most bytes the name of a namespace may have.
	MaxNamespaceBytes = 200
)

// Default values of Settings.
const (
	DefaultViewMaxChars  = 16_000
	DefaultMaxFileBytes  = 1 << 20
	DefaultMaxFiles      = 5_000
	DefaultMaxTotalBytes = 1 << 30
)

// Result is what a command gives.
type Result struct {
	// Reason says why the command failed; ReasonNone on success.
	Reason Reason
	// Content is what the model reads: one text, or one image.
	Content []Block
	// Revision is the revision that was read or made; 0 on an error.
	Revision int64
	// Entry is the file or directory: as it is now, or as it was before Delete. nil on an error.
	Entry *Entry
	// Entries are those of the page that View shows of a directory, in its order.
	Entries []Entry
}

// IsError tells whether the command failed.
func (r Result) IsError() bool { return r.Reason != ReasonNone }

// Block is one block of a result: a text, or an image where MediaType is not empty.
type Block struct {
	Text      string
	MediaType string
	Data      []byte
}

// Entry is a file or directory of a namespace.
type Entry struct {
	Path      string // canonical: /memories or below it, no "/" at the end
	Dir       bool
	Size      int64    // bytes of the file, or of all files below the directory
	Lines     int64    // newlines of the file and one; 0 for a directory
	SHA256    [32]byte // of the file; zero for a directory
	Created   time.Time
	Modified  time.Time // for a directory: of anything below it
	Revision  int64     // at which it last changed; for a directory, anything below it
	FileCount int64     // files below the directory; 0 for a file
	Pinned    bool      // the file does not expire
}

// Memory executes commands on a store. It is safe for concurrent use.
type Memory struct {
	store    kv.Store
	defaults Settings
	window   time.Duration
	recents  *lru.Cache[string, *recent] // by namespace
	screener Screener                    // nil where nobody looks
	report   func(context.Context, string, []SecretReport)
	replayed func()
	backlog  backlog
	reads    *reads
}

// Options are the options of New.
type Options struct {
	// Defaults are the settings of namespaces that set nothing; nil fields take CreateError, the constants Default...,
	// no limit of calls, no expiry, and SecretsReport.
	Defaults Settings
	// RequestWindow is how long the response of a request is recorded; 0 is DefaultRequestWindow.
	RequestWindow time.Duration
	// Screener finds secrets; nil finds none.
	Screener Screener
	// Report is told of the secrets in what was written to a namespace, or was to be, by the goroutine that called, or by
	// one of Memory's own (see EndReports). nil is not told.
	Report func(ctx context.Context, namespace string, found []SecretReport)
	// Replayed is told of a request that was answered with its recorded response; nil is not told.
	Replayed func()
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Elapsed is how long the process has run, which no change of the clock moves; nil goes by the monotonic readings of
	// Now. Where those have none, the clock counts as one that is never set.
	Elapsed func() time.Duration
}

// New returns a Memory on a store. Defaults out of their range are an *InvalidError.
func New(store kv.Store, opts Options) (*Memory, error) {
	defaults := opts.Defaults.or(Settings{
		CreateOnExisting: new(CreateError),
		ViewMaxChars:     new(int64(DefaultViewMaxChars)),
		MaxFileBytes:     new(int64(DefaultMaxFileBytes)),

		MaxFiles:          new(int64(DefaultMaxFiles)),
		MaxTotalBytes:     new(int64(DefaultMaxTotalBytes)),
		CallsPerSecond:    new(int64(0)),
		ExpireUnreadAfter: new(time.Duration(0)),
		Secrets:           new(SecretsReport),
	})
	if err := defaults.Validate(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.RequestWindow <= 0 {
		opts.RequestWindow = DefaultRequestWindow
	}
	if opts.Replayed == nil {
		opts.Replayed = func() {}
	}
	return &Memory{
		store: store, defaults: defaults, window: opts.RequestWindow,
		screener: opts.Screener, report: opts.Report, replayed: opts.Replayed,
		recents: newRecents(), reads: newReads(opts.Now, opts.Elapsed, maxPendingReads, maxNotedReads),
	}, nil
}

// Do executes one command. An error is an *InvalidError for a namespace outside the grammar, ErrRequestIDReused, the
// context's error, or one that wraps an error of package kv.
func (m *Memory) Do(ctx context.Context, namespace string, cmd Command, call Call) (Result, error) {
	known, _ := m.recents.Get(namespace)
	if f := known.admit(m.now); f != nil {
		return f.result(), nil
	}
	if !cmd.Writes() {
		return m.read(ctx, namespace, known, cmd, call)
	}
	s, f := newStep(cmd, call, nil)
	if f != nil {
		return m.result(namespace, Result{}, f)
	}
	results, err := m.update(ctx, namespace, newRequest(call.RequestID, s), s)
	return m.result(namespace, results[0], err)
}

// inNamespace completes the error of a transaction.
func inNamespace(namespace string, err error) error {
	if err == nil {
		return nil
	}
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		damaged.Namespace = namespace
	}
	return err
}

// errDeleting means that a namespace has to be deleted to its end before it can be changed.
var errDeleting = errors.New("namespace is being deleted")

// update runs steps in one transaction, or returns what the same request returned before. It returns as many results
// as there are steps, also with an error; a failed step is a *stepError.
func (m *Memory) update(ctx context.Context, namespace string, rq request, steps ...step) ([]Result, error) {
	results := make([]Result, len(steps))
	if err := ValidateNamespace(namespace); err != nil {
		return results, err
	}
	now := m.now()
	var tr trace
	secrets := m.newScreening()
	transaction := func(tx kv.Tx) error {
		secrets.begin()
		tr = trace{screening: secrets}
		return secrets.outcome(m.run(tx, now.UnixNano(), rq, steps, results, &tr))
	}
	rehearsing := m.rehearses(namespace, steps)
	for {
		var err error
		if rehearsing {
			err = m.rehearse(ctx, namespace, transaction)
		} else {
			err = m.store.Update(ctx, namespace, transaction)
		}
		switch {
		case errors.Is(err, errDeleting):
			if err := m.purge(ctx, namespace, false); err != nil {
				return results, err
			}
		case errors.Is(err, errUnscreened):
			rehearsing = false
			if err := m.search(ctx, namespace, secrets); err != nil {
				return results, err
			}
		case rehearsing && err == nil:
			rehearsing = false
		default:
			m.remember(namespace, nil, &tr, err)
			m.reportSecrets(ctx, namespace, secrets, err)
			if err == nil && tr.replayed {
				m.replayed()
			}
			return results, m.nameLargest(ctx, namespace, inNamespace(namespace, err))
		}
	}
}

// run is the transaction of update.
func (m *Memory) run(tx kv.Tx, now int64, rq request, steps []step, results []Result, tr *trace) error {
	size := 0
	for i, s := range steps {
		t := &tree{reader: tx, tx: tx, now: now, trace: tr}
		var more [][]byte
		if i == 0 && rq.recorded {
			more = append(more, rq.key())
		}
		values, err := t.read(s.paths, more...)
		if err != nil {
			return err
		}
		if t.header.deleting {
			return errDeleting
		}
		if len(values) > 0 {
			tr.replayed, err = m.replay(tx, now, rq, values[0], results)
			if tr.replayed || err != nil {
				return err
			}
			if t.header.swept, err = m.sweep(tx, now, t.header.swept); err != nil {
				return err
			}
		}
		t.settings = t.header.settings.or(m.defaults)
		tr.settings = t.settings
		if results[i], err = s.run(t); err != nil {
			return &stepError{i, err}
		}
		if size += results[i].size(); len(steps) > 1 && size > MaxBatchResultBytes {
			return errBatchResults
		}
		if t.changed {
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
	return rq.record(tx, now, results)
}

// result turns a failure into what the model reads. The name of the namespace is checked first of all.
func (m *Memory) result(namespace string, result Result, err error) (Result, error) {
	if err == nil {
		return result, nil
	}
	var f *failure
	if errors.As(err, &f) {
		return f.result(), ValidateNamespace(namespace)
	}
	return Result{}, err
}

// Read reads the bytes of a file. A failing result has the texts of view. For a directory the result has the entry and
// there are no bytes.
func (m *Memory) Read(ctx context.Context, namespace, path string) (result Result, data []byte, err error) {
	if f := m.admit(namespace); f != nil {
		return f.result(), nil, nil
	}
	p, f := parsePath(path)
	if f != nil {
		result, err = m.result(namespace, Result{}, f)
		return result, nil, err
	}
	err = m.view(ctx, namespace, func(t *tree) (err error) {
		n := t.get(p)
		if n == nil {
			return failViewMissing(path)
		}
		if !n.dir {
			if data, err = t.readFile(p, n); err != nil {
				return err
			}
		}
		result = t.done("", p, n)
		return nil
	}, p)
	result, err = m.result(namespace, result, err)
	return result, data, err
}

// List lists at most limit entries below a directory: shallow ones first, those of one depth in the byte order of
// their paths; of a file, the file itself. after is the path of the last entry of the page before, "" on the first
// page. The result has what was listed as its entry, no content, and the texts of view on failure. more tells whether
// there are entries left.
func (m *Memory) List(ctx context.Context, namespace, path, after string, limit int) (
	result Result, more bool, err error,
) {
	if f := m.admit(namespace); f != nil {
		return f.result(), false, nil
	}
	p, f := parsePath(path)
	if f != nil {
		result, err = m.result(namespace, Result{}, f)
		return result, false, err
	}
	last := p
	if after != "" {
		if last, f = parsePath(after); f != nil || !p.contains(last) {
			return Result{}, false, &InvalidError{Field: "page_token", Text: "page_token is not one of this listing"}
		}
	}
	err = m.view(ctx, namespace, func(t *tree) error {
		n := t.get(p)
		if n == nil {
			return failViewMissing(path)
		}
		result = t.done("", p, n)
		result.Content = nil
		if !n.dir {
			result.Entries = []Entry{*result.Entry}
			return nil
		}
		var err error
		result.Entries, more, err = t.entriesAfter(p, last, limit)
		return err
	}, p)
	result, err = m.result(namespace, result, err)
	return result, more && err == nil, err
}
