package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	addresses := make([]string, len(cfg.Listen))
	for i, given := range cfg.Listen {
		addresses[i] = showAddress(given)
	}
	store, err = cfg.keyset().openSealed(ctx, boltkv.Options{
		Dir:         cfg.Data,
		Address:     strings.Join(addresses, ","),
		Logger:      cfg.Logger,
		LockTimeout: lockTimeout,
	})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// explainPermission says with an error of a data directory that memoryd may not use who it runs as, and what helps.
func explainPermission(dir string, err error) error {
	uid, gid := os.Geteuid(), os.Getegid() // -1 where there are none
	if !errors.Is(err, fs.ErrPermission) || uid < 0 {
		return err
	}
	return fmt.Errorf("%w; memoryd runs as user %d and group %d, which must be able to read and write %s and all in it: "+
		"give it to them (mkdir -p %s && chown -R %d:%d %s), or run memoryd as its owner",
		err, uid, gid, dir, dir, uid, gid, dir)
}
