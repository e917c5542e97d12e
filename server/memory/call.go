package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Call says how a command is executed, besides what it does. The zero value asks for nothing. Commands that write
// nothing ignore it.
type Call struct {
	// RequestID names the call, so that it can be repeated: the same id returns the recorded result and changes nothing.
	// Only success is recorded, for Options.RequestWindow. "" is not recorded.
	RequestID string
	// IfRevision is the revision that the entry must have, 0 where it must not exist. nil is any. Of Rename, the entry is
	// that at the old path.
	IfRevision *int64
	// IfSHA256 is what the file must have; a directory has none. nil is any.
	IfSHA256 *[32]byte
	// ViewedSHA256 is that of the file as the caller has seen it. Where StrReplace changes another one, it says so. nil
	// is unknown.
	ViewedSHA256 *[32]byte
}

// step is a command that is ready to run.
type step struct {
	cmd   Command
	call  Call
	paths []Path
}

// newStep makes a step, whose paths are appended to those that are given.
func newStep(cmd Command, call Call, paths []Path) (step, *failure) {
	s := step{cmd: cmd, call: call, paths: paths}
	requested, n := cmd.paths()
	for _, requested := range requested[:n] {
		p, f := parsePath(requested)
		if f != nil {
			return step{}, f
		}
		s.paths = append(s.paths, p)
	}
	return s, nil
}

func (s step) run(t *tree) (Result, error) {
	t.call = s.call
	return s.cmd.run(t, s.paths)
}

// stepError is the error of a step of several.
type stepError struct {
	index int
	error
}

// Unwrap returns the error itself.
func (e *stepError) Unwrap() error { return e.error }

// expect checks what the call expects of an entry, nil where it does not exist.
func (t *tree) expect(n *node, requested string) *failure {
	c := t.call
	var revision int64
	if n != nil {
		revision = n.revision
	}
	if c.IfRevision != nil && *c.IfRevision != revision ||
		c.IfSHA256 != nil && (n == nil || n.dir || n.sha256 != *c.IfSHA256) {
		return fail(ReasonPreconditionFailed,
			"Error: %s was changed by someone else since you viewed it. View it again before you change it.", requested)
	}
	return nil
}

// Limits of a Batch.
const (
	// MaxBatchCommands is the most commands.
	MaxBatchCommands = 64
	// MaxBatchResultBytes is the most bytes that the results of its commands may have together: what the response, which
	// has all of them, and the record of it can carry.
	MaxBatchResultBytes = 16 << 20
)

// size is about what a result takes.
func (r Result) size() int {
	const entryBytes = 200 // of what an entry has besides its path
	n := 0
	for _, b := range r.Content {
		n += len(b.Text) + len(b.Data)
	}
	for _, e := range r.Entries {
		n += len(e.Path) + entryBytes
	}
	return n
}

// errBatchResults means that the results of a batch are too large together.
var errBatchResults = fail(ReasonBatchTooLarge, "Error: The results of the batch have more than %s. "+
	"Split it into several, or view less.", formatSize(MaxBatchResultBytes))

// BatchCommand is one command of a Batch. The RequestID of its call is ignored.
type BatchCommand struct {
	Command Command
	Call    Call
}

// BatchResult is what Batch gives.
type BatchResult struct {
	// Failed is the result of the command that failed, or says which limit the batch exceeds. It has no Reason where
	// everything was done.
	Failed Result
	// FailedIndex is the index of the command that failed, -1 where none did.
	FailedIndex int
	// Results are those of the commands; nil where one failed.
	Results []Result
}

// Batch executes commands in one transaction: all, or none where one of them fails. Each sees what those before it did.
// Its errors are those of Do.
func (m *Memory) Batch(ctx context.Context, namespace string, commands []BatchCommand, requestID string) (
	BatchResult, error,
) {
	refused := func(index int, f *failure) (BatchResult, error) {
		return BatchResult{Failed: f.result(), FailedIndex: index}, ValidateNamespace(namespace)
	}
	if f := m.admit(namespace); f != nil {
		return refused(-1, f)
	}
	if n := len(commands); n < 1 || n > MaxBatchCommands {
		return refused(-1, fail(ReasonBatchTooLarge,
			"Error: A batch has 1 to %d commands, got %d", MaxBatchCommands, n))
	}
	steps := make([]step, len(commands))
	for i, c := range commands {
		var f *failure
		if steps[i], f = newStep(c.Command, c.Call, nil); f != nil {
			return refused(i, f)
		}
	}
	results, err := m.runBatch(ctx, namespace, requestID, steps)
	var f *failure
	var failed *stepError
	switch {
	case errors.Is(err, errBatchResults):
		return refused(-1, errBatchResults)
	case errors.As(err, &f) && errors.As(err, &failed):
		return refused(failed.index, f)
	case errors.Is(err, kv.ErrTooLarge):
		return refused(-1, fail(ReasonBatchTooLarge, "Error: The batch changes more than the %s in %d writes "+
			"that one step may. Split it into several.", formatSize(kv.MaxTransactionBytes), kv.MaxWrites))
	case err != nil:
		return BatchResult{}, fmt.Errorf("apply batch: %w", err)
	}
	return BatchResult{FailedIndex: -1, Results: results}, nil
}

// runBatch runs the steps of a batch. One that only views is no transaction, and is not recorded.
func (m *Memory) runBatch(ctx context.Context, namespace, requestID string, steps []step) ([]Result, error) {
	if slices.ContainsFunc(steps, func(s step) bool { return s.cmd.Writes() }) {
		return m.update(ctx, namespace, newRequest(requestID, steps...), steps...)
	}
	var paths []Path
	for _, s := range steps {
		paths = append(paths, s.paths...)
	}
	results := make([]Result, len(steps))
	err := m.view(ctx, namespace, func(t *tree) error {
		size := 0
		for i, s := range steps {
			var err error
			if results[i], err = s.run(t); err != nil {
				return &stepError{i, err}
			}
			if size += results[i].size(); size > MaxBatchResultBytes {
				return errBatchResults
			}
		}
		return nil
	}, paths...)
	return results, err
}
