package agentkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxNameBytes is the most bytes that the service takes as the name of a session.
const maxNameBytes = 128

// maxOpen is the most open sessions that are taken off the records at once, so that the commands fit into one Apply.
const maxOpen = 50

// Session is a session of a project: one conversation with the model. It is made by Project.Resume and is safe for
// concurrent use.
type Session struct {
	// Context is what the session reads first: the listing of /memories, then the pinned files, as the memory tool would
	// show them, with a text around them that says what they are. Where there is no memory it says so, and asks the
	// model to lay the files down. It goes into the system prompt or the first user message. The same memory gives the
	// same bytes.
	Context string
	// Restarted tells that the session had begun before, in another process or this one. Context is the one that it
	// began with, under the same options.
	Restarted bool
	// Changed are the files that have changed since a session began that was restarted, in byte order: what Context does
	// not know yet, and the conversation may know. The model has chosen their names, so they are data too.
	Changed []string

	project *Project
	record  record

	mu      sync.Mutex
	closed  bool
	inDoubt string // the request id of a Close that may have been made; empty if there is none
}

// Resume begins a session, or carries on with one that was begun under the same name, if it was not closed and no other
// has begun since. The name has at most 128 bytes and no control characters. A session that begins while another is
// open records in the progress log that the other was not closed; see the package comment. When Resume fails it can be
// called again.
func (p *Project) Resume(ctx context.Context, session string) (*Session, error) {
	s, err := p.resume(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("resume session %q: %w", session, err)
	}
	return s, nil
}

func (p *Project) resume(ctx context.Context, name string) (*Session, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := p.checkBudget(); err != nil {
		return nil, err
	}
	r, err := p.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.Shown != nil && len(r.Shown) == 0 {
		found, err := p.anyMadeBy(ctx, r.made)
		if err != nil {
			return nil, err
		}
		if found { // the model has written that there was no memory
			r.Shown = nil
		}
	}
	s := &Session{project: p, record: r, Restarted: r.Shown != nil}
	if s.Restarted {
		s.Changed, err = p.changedSince(ctx, r.Began)
	} else {
		r.Shown, err = p.show(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	s.Context, _, err = p.render(r.Shown, p.budget)
	return s, err
}

// show reads what a session is shown, and puts it on the record: less of it where that is too large for a file. Where
// nothing fits all of it is shown, and is not on record.
func (p *Project) show(ctx context.Context, r record) ([]block, error) {
	blocks, err := p.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	for most := p.budget; ; most /= 2 { // the last one is 0
		if _, r.Shown, err = p.render(blocks, most); err != nil {
			return nil, err
		}
		shown, err := p.keep(ctx, r)
		switch {
		case err == nil:
			return shown, nil
		case !hasReason(err, memoryv1.Reason_REASON_FILE_TOO_LARGE):
			return nil, fmt.Errorf("keep the context of the session: %w", err)
		case most == 0:
			return blocks, nil
		}
	}
}

// Handler returns a new handler of the memory tool for the session: in the namespace of the project, with the name of
// the session, which no client.WithSession among the options changes.
func (s *Session) Handler(opts ...client.HandlerOption) *client.Handler {
	opts = append(slices.Clone(opts), client.WithSession(s.record.Session))
	return s.project.client.Handler(s.project.namespace, opts...)
}

// checkName checks the name of a session.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a session needs a name")
	case len(name) > maxNameBytes:
		return fmt.Errorf("the name of a session has at most %d bytes, got %d", maxNameBytes, len(name))
	case !utf8.ValidString(name):
		return errors.New("the name of a session must be UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }):
		return errors.New("the name of a session has no line breaks or other control characters")
	default:
		return nil
	}
}

// begin returns the record of a session, and makes it if there is none. In the same transaction it takes the sessions
// that are open off the records and notes them in the progress log.
func (p *Project) begin(ctx context.Context, name string) (record, error) {
	var r record
	log := &progressLog{project: p, sessions: maxOpen}
	resp, err := p.commit(ctx, name, "", log, func() ([]*memoryv1.ApplyCommand, error) {
		entries, err := p.list(ctx, RecordsDir)
		if err != nil {
			return nil, err
		}
		open, err := p.records(ctx, entries)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(open, func(o record) bool { return o.isOf(name) }); i >= 0 {
			r = open[i]
			r.Session = name // the model may have made it unreadable
			return nil, nil
		}
		if r, err = p.newRecord(ctx, name, entries); err != nil {
			return nil, err
		}
		commands, err := p.makeRoom(ctx, entries)
		if err != nil {
			return nil, err
		}
		noted, err := p.noteOpen(ctx, log, open[:min(len(open), log.sessions)], name)
		// The record comes last, so that the session begins after all that is written here.
		return append(append(commands, noted...), create(r.path, string(r.encode()))), err
	})
	if err != nil || resp == nil {
		return r, err
	}
	r.revision = resp.GetResponses()[len(resp.GetResponses())-1].GetEntry().GetRevision()
	r.Began = r.revision
	return r, nil
}

// noteOpen returns the commands that take open sessions off the records, and note them in the progress log.
func (p *Project) noteOpen(
	ctx context.Context, log *progressLog, open []record, next string,
) ([]*memoryv1.ApplyCommand, error) {
	if len(open) == 0 {
		return nil, nil
	}
	var commands []*memoryv1.ApplyCommand
	var entries []string
	for _, o := range open {
		changes, err := log.changes(ctx, o.Began)
		if err != nil {
			return nil, err
		}
		commands = append(commands, remove(o.path, o.revision))
		entries = append(entries, openEntry(o.Session, next, changes))
	}
	added, err := log.add(ctx, strings.Join(entries, "\n"))
	return append(commands, added...), err
}
