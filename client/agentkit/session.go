package agentkit

import (
	"context"
	"crypto/sha256"
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

// reasonRequestIDReused is the reason of the service for a request id that stands for another request.
const reasonRequestIDReused = "REQUEST_ID_REUSED"

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
// has begun since. The name has at most 128 bytes and no control characters; use it with client.WithSession too. A
// session that begins while another is open records in the progress log that the other was not closed; see the package
// comment. When Resume fails it can be called again.
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
	s := &Session{project: p, record: r, Restarted: r.Shown != nil}
	if s.Restarted {
		s.Changed, err = p.changedSince(ctx, r.Began)
	} else {
		r.Shown, err = p.show(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	s.Context, _, err = p.render(r.Shown)
	return s, err
}

// show reads what a session is shown, and puts it on the record.
func (p *Project) show(ctx context.Context, r record) ([]block, error) {
	blocks, err := p.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	if _, r.Shown, err = p.render(blocks); err != nil {
		return nil, err
	}
	shown, err := p.keep(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("keep the context of the session: %w", err)
	}
	return shown, nil
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

// Outcome is what comes of a session. The zero Outcome is recorded with the files that changed in the session.
type Outcome struct {
	// Done is what the session did.
	Done string
	// Next is what comes next.
	Next string
	// Err is why the session ended before its time; nil where it did not. Its text goes into memory, on one line and up
	// to 500 bytes.
	Err error
}

// Close records what came of the session, at the top of the progress log, and that it is closed. It does so even if ctx
// has ended, so that it can be deferred: within the time of WithCloseTimeout. Closing again does nothing, and so it is
// safe to repeat a Close that failed. That holds for a Close whose answer was lost too, for as long as the service
// remembers requests, which is 24 hours unless it is set up otherwise. Where several processes have resumed the
// session, the outcome of each is recorded, the same outcome once.
func (s *Session) Close(ctx context.Context, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.project.closeTimeout)
	defer cancel()
	if err := s.close(ctx, o); err != nil {
		return fmt.Errorf("close session %q: %w", s.record.Session, err)
	}
	s.closed = true
	return nil
}

func (s *Session) close(ctx context.Context, o Outcome) error {
	p, name := s.project, s.record.Session
	// The id stands for this session and outcome, so that the entry is written once even where there is no record any
	// more; and after a Close that may have been made, for its outcome.
	id := s.inDoubt
	if id == "" {
		id = fmt.Sprintf("agentkit/%x", sha256.Sum256(fmt.Appendf(nil, "%d %s", s.record.Began, closedEntry(name, o, ""))))
	}
	log := &progressLog{project: p}
	_, err := p.commit(ctx, name, id, log, func() ([]*memoryv1.ApplyCommand, error) {
		var commands []*memoryv1.ApplyCommand
		r, ok, err := p.record(ctx, s.record.path)
		if err != nil {
			return nil, err
		}
		// It may be that of a later session with the same name.
		if ok && r.Began == s.record.Began {
			commands = append(commands, remove(r.path, r.revision))
		}
		changes := ""
		if strings.TrimSpace(o.Done) == "" {
			if changes, err = log.changes(ctx, s.record.Began); err != nil {
				return nil, err
			}
		}
		added, err := log.add(ctx, closedEntry(name, o, changes))
		return append(commands, added...), err
	})
	switch {
	case client.Reason(err) == reasonRequestIDReused:
		return nil // by a Close with this outcome, or by the one whose answer was lost
	case client.MayHaveBeenMade(err):
		s.inDoubt = id
	}
	return err
}
