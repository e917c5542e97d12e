package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

const (
	// flushInterval is how often views are recorded: a crash forgets the views of so long.
	flushInterval = time.Minute
	// expiryInterval is how often files that expire are looked for.
	expiryInterval = 10 * time.Minute
	// expiryPause is how long others have the store for themselves where there is more to look at than one pass does.
	expiryPause = 100 * time.Millisecond
	// sweeperStopTimeout is the longest that the end of the server waits until views are recorded.
	sweeperStopTimeout = 5 * time.Second
)

// principalService is who does in the audit trail what nobody has called for.
const principalService = "memoryd"

// sweeper records when files were viewed, and removes those that expire.
type sweeper struct {
	memory  *memory.Memory
	logger  *slog.Logger
	metrics *ops.Metrics
	// audit writes a line of the audit trail.
	audit func(ctx context.Context, e audit.Event)
	// after is time.After, and now time.Now.
	after func(time.Duration) <-chan time.Time
	now   func() time.Time

	// floor is when every file counted as viewed, as was last seen; zero before.
	floor time.Time

	recording, expiring trouble
}

func newSweeper(m *memory.Memory, auditor *auditor, metrics *ops.Metrics, logger *slog.Logger) *sweeper {
	return &sweeper{
		memory: m, logger: logger, metrics: metrics, audit: auditor.write,
		after: time.After, now: time.Now,
		recording: trouble{logger: logger, failed: "cannot record when files were viewed", well: "views are recorded again"},
		expiring:  trouble{logger: logger, failed: "cannot remove all files that expire", well: "files expire again"},
	}
}

// begin works until stop is called, which waits for the end. begin is called before the first call of the service, and
// stop after the last has ended; where calls were cut off, one may still note a view, and then views are not complete.
func (s *sweeper) begin(ctx context.Context) (stop func(cutOff bool)) {
	s.recording.note(ctx, s.memory.Start(ctx)) // Where it fails, it is tried again.
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		flushTicks, expiryTicks := time.NewTicker(flushInterval), time.NewTicker(expiryInterval)
		defer flushTicks.Stop()
		defer expiryTicks.Stop()
		s.run(running, flushTicks.C, expiryTicks.C)
	}()
	return func(cutOff bool) {
		cancel()
		<-done
		s.memory.EndReports()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweeperStopTimeout)
		defer cancel()
		if cutOff {
			s.flush(ctx)
		} else {
			s.recording.note(ctx, s.memory.Stop(ctx))
		}
	}
}

// run works at every tick until ctx is done.
func (s *sweeper) run(ctx context.Context, flushTicks, expiryTicks <-chan time.Time) {
	var again <-chan time.Time // nil where the last pass came to the end
	for {
		select {
		case <-ctx.Done():
			return
		case <-flushTicks:
			s.flush(ctx)
		case <-s.memory.ReadsDue():
			s.flush(ctx)
		case <-expiryTicks:
			again = s.expire(ctx)
		case <-again:
			again = s.expire(ctx)
		}
	}
}

// flush records views.
func (s *sweeper) flush(ctx context.Context) {
	err := s.memory.Start(ctx)
	if err == nil {
		s.watchFloor(ctx)
		var recorded int
		recorded, err = s.memory.FlushReads(ctx)
		s.metrics.ReadsRecorded(recorded)
	}
	s.recording.note(ctx, err)
}

// watchFloor tells where files got time anew, since it delays what an operator may wait for.
func (s *sweeper) watchFloor(ctx context.Context) {
	floor := s.memory.Floor()
	if !s.floor.IsZero() && !floor.Equal(s.floor) {
		s.logger.InfoContext(ctx, "every file counts as viewed now: the clock was set, the machine has slept, or there were "+
			"too many views to record", "floor", floor)
	}
	s.floor = floor
}

// expire makes one pass, and returns what tells when to go on where there is more to do at once.
func (s *sweeper) expire(ctx context.Context) <-chan time.Time {
	began := s.now()
	removed := map[string]int{} // by namespace
	report, err := s.memory.Expire(ctx, func(file memory.ExpiredFile) {
		event := audit.Event{
			Principal: principalService, Command: "expire", Namespace: file.Namespace, Path: file.Path,
			Outcome: audit.OutcomeOK, Revision: file.Revision,
		}
		if file.Unknown {
			event.Outcome, event.Revision = code.Code_UNKNOWN.String(), 0 // as of a call whose answer was lost
			s.logger.WarnContext(ctx, "may have removed a file that expired", "namespace", file.Namespace, "path", file.Path)
		} else {
			removed[file.Namespace]++
			s.logger.DebugContext(ctx, "removed a file that expired",
				"namespace", file.Namespace, "path", file.Path, "revision", file.Revision)
		}
		s.audit(ctx, event)
	})
	for _, namespace := range slices.Sorted(maps.Keys(removed)) {
		s.logger.InfoContext(ctx, "removed files that expired", "namespace", namespace, "files", removed[namespace])
	}
	s.metrics.FilesExpired(report.Removed)
	if ctx.Err() != nil {
		return nil
	}
	ended := s.now()
	s.metrics.Swept(err == nil, report.More, ended, ended.Sub(began))
	s.expiring.note(ctx, err)
	if !report.More {
		return nil
	}
	return s.after(expiryPause)
}

// trouble logs what goes wrong again and again: once, until it is another thing or all is well.
type trouble struct {
	logger       *slog.Logger
	failed, well string
	last         string // the error; "" where all is well
}

func (t *trouble) note(ctx context.Context, err error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // The server stops.
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == t.last:
	case err != nil:
		t.logger.ErrorContext(ctx, t.failed, "error", err)
	default:
		t.logger.InfoContext(ctx, t.well)
	}
	t.last = text
}
