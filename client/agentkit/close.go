package agentkit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// reasonRequestIDReused is the reason of the service for a request id that stands for another request.
const reasonRequestIDReused = "REQUEST_ID_REUSED"

// The pauses of a Close that waits for the service are like those of package client: random, up to a limit that begins
// at firstPause and doubles up to longestPause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// Close records what came of the session, at the top of the progress log, and that it is closed. It does so even if ctx
// has ended, so that it can be deferred: within the time of WithCloseTimeout. For all of that it waits for a service
// that cannot be reached, even where the client has given up waiting (client.WithRetryBudget), since nobody makes this
// call again. Closing again does nothing, and so it is safe to repeat a Close that failed. That holds for a Close whose
// answer was lost too, for as long as the service remembers requests, which is 24 hours unless it is set up otherwise.
// Where several processes have resumed the session, the outcome of each is recorded, the same outcome once.
func (s *Session) Close(ctx context.Context, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.project.closeTimeout)
	defer cancel()
	err := s.close(ctx, o)
	for failures := 1; client.IsUnreachable(err) && pause(ctx, failures); failures++ {
		err = s.close(ctx, o)
	}
	if err != nil {
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
		// It may be that of a later session with the same name. One that does not tell is taken for this one's.
		if ok && (r.Began == s.record.Began || r.spoiled) {
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

// pause waits before the next try, after so many failures in a row, and tells whether there is time for it.
func pause(ctx context.Context, failures int) bool {
	limit := min(firstPause<<min(failures-1, 10), longestPause) // 10: no overflow
	timer := time.NewTimer(rand.N(limit))                       //nolint:gosec // it only spreads the load
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
