package server

import (
	"context"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// lockTimeout is how long New waits for a process that holds the store, such as one that is just stopping.
const lockTimeout = time.Second

// openStore picks and opens the engine, and what encrypts it. closeStore releases what it opened.
func openStore(ctx context.Context, cfg Config) (store kv.Store, closeStore func() error, err error) {
	if cfg.Store != nil {
		return cfg.Store, func() error { return nil }, nil
	}
	store, err = cfg.keyset().openSealed(ctx, boltkv.Options{
		Dir:         cfg.Data,
		Address:     strings.Join(cfg.Listen, ","),
		Logger:      cfg.Logger,
		LockTimeout: lockTimeout,
	})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}
