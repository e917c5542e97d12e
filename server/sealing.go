package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// keyset is the keyset of a configuration.
func (c Config) keyset() Keyset { return Keyset{File: c.EncryptionKeyset, KeyURI: c.EncryptionKeyURI} }

// validateKeyset returns a *ConfigError for settings of encryption that do not go together.
func (c Config) validateKeyset() error {
	if c.EncryptionKeyURI != "" && c.EncryptionKeyset == "" {
		return &ConfigError{"EncryptionKeyset", "", "it must be a file, since there is the URI of a key that encrypts it"}
	}
	if c.Store != nil && c.EncryptionKeyset != "" {
		return &ConfigError{"EncryptionKeyset", c.EncryptionKeyset, "it must be empty, since the store was opened already"}
	}
	return nil
}

// keysetError is a *ConfigError about a store and a keyset that do not belong together.
type keysetError struct {
	ConfigError
	cause error
}

// Unwrap returns what it is, and why.
func (e *keysetError) Unwrap() []error { return []error{&e.ConfigError, e.cause} }

// explain turns an error of a store that was opened with a keyset into one that says what to give instead.
func (k Keyset) explain(err error) error {
	var want string
	switch {
	case errors.Is(err, sealkv.ErrNoKeyset):
		want = "it must be the keyset that the store was encrypted with"
	case errors.Is(err, sealkv.ErrWrongKeyset):
		want = err.Error()
	case errors.Is(err, sealkv.ErrPlainStore):
		want = "it must be empty, since the store is not encrypted; memoryd encrypt encrypts one"
	default:
		return err
	}
	return &keysetError{ConfigError{"EncryptionKeyset", k.File, want}, err}
}

// unseal returns a store as its users see it. A store and a keyset that do not belong together are an error, and then
// nothing was written. A handle that is nil is for stores that are not encrypted.
func (k Keyset) unseal(ctx context.Context, store kv.Store, handle *keyset.Handle) (kv.Store, error) {
	if handle == nil {
		if err := sealkv.CheckPlain(ctx, store); err != nil {
			return nil, k.explain(err)
		}
		return store, nil
	}
	sealed, err := sealkv.Open(ctx, store, sealkv.Options{Keyset: handle})
	if err != nil {
		return nil, k.explain(err)
	}
	return sealed, nil
}

// openSealed opens the store of a data directory, with what it is encrypted with.
func (k Keyset) openSealed(ctx context.Context, o boltkv.Options) (kv.Store, error) {
	handle, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	if handle != nil {
		o.OverheadBytes = sealkv.OverheadBytes
	}
	o.Check = func(ctx context.Context, store kv.Store) error {
		if handle == nil {
			return k.explain(sealkv.CheckPlain(ctx, store))
		}
		return k.explain(sealkv.CheckKeyset(ctx, store, handle))
	}
	bolt, err := boltkv.Open(ctx, o)
	if err != nil {
		return nil, explainPermission(o.Dir, err)
	}
	store, err := k.unseal(ctx, bolt, handle)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return store, nil
}

// rewrapRetry is how long after wrapping data keys anew has failed it is tried again.
const rewrapRetry = 5 * time.Minute

// rewrapReport is how often the log hears how far it has come.
const rewrapReport = 10 * time.Second

// sealing keeps the encryption of a store up to date with its keyset.
type sealing struct {
	store  *sealkv.Store
	keyset Keyset
	logger *slog.Logger
	rotate func(rewrapped, waiting, failed int) // notes how far a rotation has come
	wake   chan struct{}                        // holds a value where the keyset was set since data keys were last seen to
}

// newSealing returns the sealing of a store, nil where it is not encrypted.
func newSealing(cfg Config, store kv.Store, metrics *ops.Metrics) *sealing {
	sealed, ok := kv.As[*sealkv.Store](store)
	if !ok {
		return nil
	}
	return &sealing{
		store: sealed, keyset: cfg.keyset(), logger: cfg.Logger, rotate: metrics.DataKeys, wake: make(chan struct{}, 1),
	}
}

// reloadable is the file of the keyset. One that lost a key in use is not put into force.
func (s *sealing) reloadable() reloadable {
	return reloadable{what: "keyset", files: []string{s.keyset.File}, load: s.load}
}

func (s *sealing) load(ctx context.Context, _ [][]byte) ([]slog.Attr, error) {
	handle, err := s.keyset.read(ctx) // It looks at the permissions too.
	if err != nil {
		return nil, err
	}
	if err := s.store.SetKeyset(ctx, handle); err != nil {
		return nil, err
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	id, err := primaryOf(handle)
	return []slog.Attr{slog.Uint64("primary_key", uint64(id))}, err
}

// run wraps data keys by the primary key wherever another wraps them, now and whenever the keyset was set, until ctx is
// done. What fails is logged and tried again.
func (s *sealing) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.rewrap(ctx)
		if ctx.Err() != nil {
			return
		}
		again := time.NewTimer(rewrapRetry)
		if err == nil {
			again.Stop()
		} else {
			s.logger.ErrorContext(ctx, "wrapping data keys by the primary key failed", "error", err, "again_in", rewrapRetry)
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-again.C:
		}
		again.Stop()
	}
}

func (s *sealing) rewrap(ctx context.Context) error {
	began := time.Now()
	told := began
	first := true
	err := s.store.Rewrap(ctx, func(p sealkv.Progress) {
		s.rotate(p.Done-p.Failed, p.Total-p.Done, p.Failed)
		now := time.Now()
		switch {
		case first:
			first = false
			s.logger.InfoContext(ctx, "wrapping data keys by the primary key of the keyset", "total", p.Total)
		case p.Running && now.Sub(told) >= rewrapReport:
			told = now
			s.logger.InfoContext(ctx, "wrapping data keys", "done", p.Done, "total", p.Total)
		}
	})
	if err == nil && !first {
		s.logger.InfoContext(ctx, "the primary key wraps all data keys", "done", s.store.Progress().Done,
			"took", time.Since(began))
	}
	return err
}
