package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/seed-7f2870e1/memoryd/server/internal/regular"
)

// When keys are fetched.
const (
	refreshEvery  = time.Hour
	refreshAfter  = time.Minute // since the last time: not more often for keys that are not known, and after a failure
	maxKeyWaiters = 16          // calls that wait for keys at once; others fail
)

// keySource holds the keys of an issuer. Those of a URL are fetched by one goroutine: every hour, a minute after it
// failed, and when a JWT names a key that is not known. JWTs with invented keys cost the issuer one request a minute.
type keySource struct {
	read    func(context.Context) ([]byte, error)
	storage *jwkset.MemoryJWKSet
	logger  *slog.Logger

	stop      context.CancelFunc // nil for a file
	stopped   chan struct{}      // closed when the goroutine has ended
	closeIdle func()             // closes connections; nil: those are the caller's
	again     chan struct{}      // holds one; asks for a fetch

	mu      sync.Mutex
	began   time.Time     // of the last fetch
	running chan struct{} // closed when the fetch that was asked for ends; nil where there is none
	waiting int           // calls
}

func newKeySource(ctx context.Context, opts JWTOptions) (*keySource, error) {
	s := &keySource{storage: jwkset.NewMemoryStorage(), logger: opts.Logger}
	if !strings.HasPrefix(opts.JWKS, "http://") && !strings.HasPrefix(opts.JWKS, "https://") {
		s.read = func(context.Context) ([]byte, error) { return regular.ReadFile(opts.JWKS, maxJWKSBytes) }
		return s, s.reload()
	}
	u, err := url.Parse(opts.JWKS)
	if err != nil {
		return nil, errors.New("JWTs: the URL of the keys is malformed")
	}
	if err := checkURL(u); err != nil {
		return nil, fmt.Errorf("JWTs: the URL of the keys %w", err)
	}
	client := newClient(opts.HTTPClient)
	s.read = func(ctx context.Context) ([]byte, error) { return fetch(ctx, client, u) }
	if opts.HTTPClient == nil {
		s.closeIdle = client.CloseIdleConnections
	}
	s.stopped, s.again = make(chan struct{}), make(chan struct{}, 1)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.begin()
	go s.run(ctx)
	return s, nil
}

// run fetches until ctx is done.
func (s *keySource) run(ctx context.Context) {
	defer close(s.stopped)
	for failed := true; ; {
		err := s.load(ctx)
		s.end()
		pause := refreshEvery
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = refreshAfter
			s.logger.WarnContext(ctx, "the keys of JWTs cannot be fetched; those that are there stay in force",
				"error", err, "again_in", pause)
		case failed:
			s.logger.InfoContext(ctx, "the keys of JWTs are there")
		}
		failed = err != nil
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.again:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
		s.begin()
	}
}

// begin notes that a fetch begins. Calls may wait for it already.
func (s *keySource) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Now()
	if s.running == nil {
		s.running = make(chan struct{})
	}
}

// end notes that a fetch has ended.
func (s *keySource) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running)
	s.running = nil
}

// fresh waits for keys that are not there yet. It is false where none are to be expected now.
func (s *keySource) fresh(ctx context.Context) bool {
	running := s.join()
	if running == nil {
		return false
	}
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	select {
	case <-running:
		return true
	case <-s.stopped:
	case <-ctx.Done():
	}
	return false
}

// join returns the fetch to wait for, nil for none.
func (s *keySource) join() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil || s.waiting == maxKeyWaiters {
		return nil
	}
	if s.running == nil {
		if time.Since(s.began) < refreshAfter {
			return nil
		}
		s.running = make(chan struct{})
		s.ask()
	}
	s.waiting++
	return s.running
}

// ask asks for a fetch that begins from now on.
func (s *keySource) ask() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

func (s *keySource) reload() error {
	if s.stop != nil {
		s.ask()
		return nil
	}
	return s.load(context.Background())
}

func (s *keySource) close() {
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.stopped
	if s.closeIdle != nil {
		s.closeIdle()
	}
}

// load replaces the keys by those that are read now, if they are good.
func (s *keySource) load(ctx context.Context) error {
	data, err := s.read(ctx)
	if err != nil {
		return fmt.Errorf("read keys of JWTs: %w", err)
	}
	keys, unusable, err := parseKeys(data)
	if err != nil {
		return fmt.Errorf("read keys of JWTs: %w", err)
	}
	for _, why := range unusable {
		s.logger.WarnContext(ctx, "a key of JWTs cannot be used", "error", why)
	}
	return s.storage.KeyReplaceAll(ctx, keys)
}
