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
	to, err := l.project.unusedPath(ctx)
	if err != nil {
		return nil, err
	}
	aside := move(ProgressPath, to)
	if l.seen != 0 {
		aside.IfRevision = &l.seen
	}
	return []*memoryv1.ApplyCommand{aside, create(ProgressPath, entries)}, nil
}

// unusedPath returns a path to which what stands at ProgressPath can be moved aside.
func (p *Project) unusedPath(ctx context.Context) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s-%d.md", strings.TrimSuffix(ProgressPath, ".md"), n)
		if found, _, err := p.stat(ctx, to); err != nil || found == missing {
			return to, err
		}
	}
}

// again tells whether commands that failed with err are to be planned anew.
func (l *progressLog) again(err error) bool {
	var r *refusal
	switch {
	case !errors.As(err, &r):
		return false
	case r.unfit():
		known := l.seen == l.unfit
		l.unfit = l.seen
		return !known
	default:
		return r.overtaken()
	}
}

// closedEntry is the entry of a session that is closed.
func closedEntry(session string, o Outcome, changed []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Session %s\n\n", session)
	if done := strings.TrimSpace(o.Done); done != "" {
		b.WriteString("Done: " + done + "\n")
	} else {
		b.WriteString("Done: not said. " + changes(changed) + "\n")
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
func openEntry(session, next string, changed []string) string {
	return fmt.Sprintf("## Session %s: not closed\n\nIt was cut off, or still ran, when session %s began. %s\n",
		session, next, changes(changed))
}

// changes says which files were changed in a session.
func changes(paths []string) string {
	if len(paths) == 0 {
		return "No memory file has changed since it began."
	}
	more := ""
	if n := len(paths) - maxChangedPaths; n > 0 {
		paths, more = paths[:maxChangedPaths], fmt.Sprintf(", and %d more", n)
	}
	return "Memory files changed since it began: " + strings.Join(paths, ", ") + more + "."
}

// shorten cuts what is too long for an entry.
func shorten(text string) string {
	if len(text) <= maxErrorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorBytes], "") + "..."
}
