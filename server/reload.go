package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/regular"
)

// pollEvery is how often files are looked at. They are read and not watched, which works the same for the symbolic
// links of Kubernetes, for NFS, and for whatever way a file is replaced. What has changed is loaded once two looks in a
// row have seen the same, so that nobody's half of a file, or half of a pair of files, is ever put into force.
const pollEvery = 5 * time.Second

// tellEvery is how often the log is told that files still cannot be loaded.
const tellEvery = time.Hour

// maxReloadableBytes is the most that is read of a file.
const maxReloadableBytes = 32 << 20

// reloadable is what is made of files that only make sense together.
type reloadable struct {
	what  string // in metrics and the log
	files []string
	// load puts the contents of the files into force, or fails and leaves in force what is. The attributes tell the log
	// what is in force now.
	load func(ctx context.Context, contents [][]byte) ([]slog.Attr, error)
}

// reloader follows the files of what is reloadable. What cannot be loaded leaves in force what is there.
type reloader struct {
	logger  *slog.Logger
	metrics *ops.Metrics
	now     func() time.Time

	mu     sync.Mutex
	groups []*fileGroup
}

// fileGroup is how far a reloadable has been followed.
type fileGroup struct {
	reloadable
	tried   digest    // what was loaded last, or failed to be
	failing bool      // what was tried is not in force
	told    time.Time // when the log was told last that it is failing
	seen    digest    // what the last look saw
}

// digest stands for what files hold, or for why they cannot be read.
type digest [sha256.Size]byte

func newReloader(logger *slog.Logger, metrics *ops.Metrics, now func() time.Time) *reloader {
	return &reloader{logger: logger, metrics: metrics, now: now}
}

// start loads r, and follows it if that succeeds.
func (r *reloader) start(ctx context.Context, what reloadable) error {
	contents, seen, err := readFiles(what.files)
	if err != nil {
		return err
	}
	if _, err := what.load(ctx, contents); err != nil {
		return err
	}
	r.follow(what, seen)
	return nil
}

// watch follows what is in force already.
func (r *reloader) watch(what reloadable) {
	_, seen, _ := readFiles(what.files) // A failure is a state that the files may leave again.
	r.follow(what, seen)
}

func (r *reloader) follow(what reloadable, seen digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.Reloadable(what.what)
	r.groups = append(r.groups, &fileGroup{reloadable: what, tried: seen, seen: seen})
}

// poll looks at all files once, and loads those that have changed. What fails is tried again at every look, and told
// and counted once; as long as it lasts the log is told every tellEvery.
func (r *reloader) poll(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		contents, seen, err := readFiles(g.files)
		settled := seen == g.seen
		g.seen = seen
		if !settled || seen == g.tried && !g.failing {
			continue
		}
		changed := seen != g.tried
		err = r.load(ctx, g, contents, seen, err)
		if err == nil || changed {
			r.metrics.Reloaded(g.what, err == nil)
		}
		if err != nil && (changed || r.now().Sub(g.told) >= tellEvery) {
			r.tell(ctx, g, err)
		}
	}
}

// all loads everything now, whether it has changed or not. The log is told of all that fails.
func (r *reloader) all(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	for _, g := range r.groups {
		contents, seen, err := readFiles(g.files)
		g.seen = seen
		err = r.load(ctx, g, contents, seen, err)
		r.metrics.Reloaded(g.what, err == nil)
		if err != nil {
			r.tell(ctx, g, err)
			failed = errors.Join(failed, fmt.Errorf("reload %s: %w", g.what, err))
		}
	}
	return failed
}

// load loads what was read, with the error of reading it. It logs success.
func (r *reloader) load(ctx context.Context, g *fileGroup, contents [][]byte, seen digest, err error) error {
	var attrs []slog.Attr
	if err == nil {
		attrs, err = g.load(ctx, contents)
	}
	g.tried, g.failing = seen, err != nil
	r.metrics.ReloadFailing(g.what, g.failing)
	if err != nil {
		return err
	}
	r.logger.LogAttrs(ctx, slog.LevelInfo, "reloaded", append(g.attrs(), attrs...)...)
	return nil
}

// tell tells the log that files cannot be loaded.
func (r *reloader) tell(ctx context.Context, g *fileGroup, err error) {
	g.told = r.now()
	r.logger.LogAttrs(ctx, slog.LevelError, "cannot reload; what was in force stays in force",
		append(g.attrs(), slog.Any("error", err))...)
}

// attrs are what the log calls it.
func (r reloadable) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("what", r.what)}
	if len(r.files) > 0 {
		attrs = append(attrs, slog.Any("files", r.files))
	}
	return attrs
}

// readFiles reads files, and returns what stands for what was read. An error names the file.
func readFiles(files []string) (contents [][]byte, seen digest, err error) {
	sum := sha256.New()
	for _, name := range files {
		data, err := regular.ReadFile(name, maxReloadableBytes)
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		contents = append(contents, data)
		of := sha256.Sum256(data)
		_, _ = sum.Write(of[:]) // It never fails.
	}
	sum.Sum(seen[:0])
	return contents, seen, nil
}

// Reload reads again all files about TLS and identity now, and opens the audit trail anew, for whoever has renamed it.
// The server does the former by itself when a file has changed, within 10 seconds. What cannot be used leaves in force
// what is, and is an error, of which the log has been told too; the rest is reloaded nevertheless. It is safe for
// concurrent use.
func (s *Server) Reload(ctx context.Context) error { return s.security.reloads.all(ctx) }

// followFiles looks at the files at every tick until ctx is done.
func (s *Server) followFiles(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			s.security.reloads.poll(ctx)
			if s.security.tls != nil {
				s.security.tls.warnExpiry(ctx)
			}
		}
	}
}
