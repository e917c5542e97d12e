package agentkit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxChangedPaths is the most paths that an entry of the progress log names.
const maxChangedPaths = 20

// maxErrorBytes is the most of the text of an error that goes into an entry.
const maxErrorBytes = 500

// progressLog plans how an entry gets into the progress log.
type progressLog struct {
	project *Project
	seen    int64 // the revision of the file that the last plan was for; 0 if there was none
	unfit   int64 // the revision of a file that does not take an entry
	stuck   bool  // a directory is in the way that cannot be moved

	brief    bool // entries name no files
	sessions int  // the most open sessions that entries are written about at once
}

// add returns the commands that put entries at the top of the log, or into a new one.
func (l *progressLog) add(ctx context.Context, entries string) ([]*memoryv1.ApplyCommand, error) {
	found, revision, err := l.project.stat(ctx, ProgressPath)
	if err != nil {
		return nil, err
	}
	l.seen = revision
	switch {
	case found == missing:
		return []*memoryv1.ApplyCommand{create(ProgressPath, entries)}, nil
	case found == isFile && revision != l.unfit:
		return []*memoryv1.ApplyCommand{prepend(ProgressPath, entries+"\n")}, nil
	}
	if l.stuck {
		instead, err := l.project.unusedPath(ctx, ProgressPath)
		return []*memoryv1.ApplyCommand{create(instead, entries)}, err
	}
	aside, err := l.project.aside(ctx, ProgressPath, l.seen)
	return []*memoryv1.ApplyCommand{aside, create(ProgressPath, entries)}, err
}

// again tells whether commands that failed with err are to be planned anew.
func (l *progressLog) again(err error) bool {
	var r *refusal
	switch {
	case !errors.As(err, &r):
		return false
	case r.unfit() && l.seen != l.unfit:
		l.unfit = l.seen
		return true
	case r.unfit(), r.reason == memoryv1.Reason_REASON_BATCH_TOO_LARGE:
		l.unfit = 0 // the file may take less
		return l.shorten()
	case r.unmovable():
		known := l.stuck
		l.stuck = true
		return !known
	default:
		return r.overtaken()
	}
}

// shorten makes the next entries shorter. It returns false where they cannot be.
func (l *progressLog) shorten() bool {
	switch {
	case !l.brief:
		l.brief = true
	case l.sessions > 0:
		l.sessions /= 2
	default:
		return false
	}
	return true
}

// closedEntry is the entry of a session that is closed. Changes are for where it is not said what was done.
func closedEntry(session string, o Outcome, changes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Session %s\n\n", session)
	if done := strings.TrimSpace(o.Done); done != "" {
		b.WriteString("Done: " + done + "\n")
	} else {
		b.WriteString("Done: not said. " + changes + "\n")
	}
	if o.Err != nil {
		b.WriteString("\nEnded by an error: " + shorten(oneLine(o.Err.Error())) + "\n")
	}
	if next := strings.TrimSpace(o.Next); next != "" {
		b.WriteString("\nNext: " + next + "\n")
	}
	return b.String()
}

// openEntry is the entry of a session that is found open when another one begins.
func openEntry(session, next, changes string) string {
	return fmt.Sprintf("## Session %s: not closed\n\nIt was cut off, or still ran, when session %s began. %s\n",
		session, next, changes)
}

// changes says which files have changed since a revision, at which a session began.
func (l *progressLog) changes(ctx context.Context, revision int64) (string, error) {
	paths, err := l.project.changedSince(ctx, revision)
	if err != nil {
		return "", err
	}
	switch {
	case len(paths) == 0:
		return "No memory file has changed since it began.", nil
	case l.brief:
		return fmt.Sprintf("Memory files changed since it began: %d.", len(paths)), nil
	}
	more := ""
	if n := len(paths) - maxChangedPaths; n > 0 {
		paths, more = paths[:maxChangedPaths], fmt.Sprintf(", and %d more", n)
	}
	return "Memory files changed since it began: " + strings.Join(paths, ", ") + more + ".", nil
}

// shorten cuts what is too long for an entry.
func shorten(text string) string {
	if len(text) <= maxErrorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorBytes], "") + "..."
}
