package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// pollEvery is how often files are looked at. They are read and not watched, which works the same for the symbolic
// links of Kubernetes, for NFS, and for whatever way a file is replaced. What has changed is loaded once two looks in a
// row have seen the same, so that nobody's half of a file, or half of a pair of files, is ever put into force.
const pollEvery = 5 * time.Second

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

	mu     sync.Mutex
	groups []*fileGroup
}

// fileGroup is how far a reloadable has been followed.
type fileGroup struct {
	reloadable
	tried   digest // what was loaded last, or failed to be
	failing bool   // what was tried is not in force
	seen    digest // what the last look saw
}

// digest stands for what files hold, or for why they cannot be read.
type digest [sha256.Size]byte

func newReloader(logger *slog.Logger, metrics *ops.Metrics) *reloader {
	return &reloader{logger: logger, metrics: metrics}
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
// once.
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
		known := seen == g.tried
		if err := r.load(ctx, g, contents, seen, err); err != nil && !known {
			r.logger.ErrorContext(ctx, "cannot reload; what was in force stays in force", "what", g.what, "error", err)
		}
	}
}

// all loads everything now, whether it has changed or not.
func (r *reloader) all(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	for _, g := range r.groups {
		contents, seen, err := readFiles(g.files)
		g.seen = seen
		if err := r.load(ctx, g, contents, seen, err); err != nil {
			failed = errors.Join(failed, fmt.Errorf("reload %s: %w", g.what, err))
		}
	}
	return failed
}

// load loads what was read, with the error of reading it. It counts, and logs success.
func (r *reloader) load(ctx context.Context, g *fileGroup, contents [][]byte, seen digest, err error) error {
	var attrs []slog.Attr
	if err == nil {
		attrs, err = g.load(ctx, contents)
	}
	again := err != nil && g.failing && seen == g.tried
	g.tried, g.failing = seen, err != nil
	if !again { // One that fails all the time is one failure.
		r.metrics.Reloaded(g.what, err == nil)
	}
	if err != nil {
		return err
	}
	attrs = append([]slog.Attr{slog.String("what", g.what), slog.Any("files", g.files)}, attrs...)
	r.logger.LogAttrs(ctx, slog.LevelInfo, "reloaded", attrs...)
	return nil
}

// readFiles reads files, and returns what stands for what was read. An error names the file.
func readFiles(files []string) (contents [][]byte, seen digest, err error) {
	sum := sha256.New()
	for _, name := range files {
		data, err := readFile(name)
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

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // Nothing was written.
	data, err := io.ReadAll(io.LimitReader(f, maxReloadableBytes+1))
	if err == nil && len(data) > maxReloadableBytes {
		err = fmt.Errorf("read %s: there are more than %d bytes", name, maxReloadableBytes)
	}
	return data, err
}

// Reload reads again all files about TLS and identity now, and opens the audit trail anew, for whoever has renamed it.
// The server does the former by itself when a file has changed, within 10 seconds. What cannot be used leaves in force
// what is, and is an error; the rest is reloaded nevertheless. It is safe for concurrent use.
func (s *Server) Reload(ctx context.Context) error {
	err := s.security.reloads.all(ctx)
	if s.auditLog != nil {
		reopened := s.auditLog.Reopen()
		s.metrics.Reloaded(reloadedAuditLog, reopened == nil)
		err = errors.Join(err, reopened)
	}
	return err
}

// reloadedAuditLog is the audit trail in the metrics of what was reloaded.
const reloadedAuditLog = "audit_log"

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
