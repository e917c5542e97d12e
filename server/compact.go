package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// CompactReport says what Compact came to: the bytes that the store takes on disk, before and after.
type CompactReport = boltkv.CompactReport

// Compact gives back to the disk what a store does not use any more. No server may have the directory open. A crash
// leaves the store as it was, or compacted. The logger gets what opening the store takes; nil discards it. A damaged
// store is left as it is: its file is the only one there is. What is encrypted is copied as it is; the keyset is for
// the check.
func Compact(ctx context.Context, dir string, k Keyset, logger *slog.Logger) (CompactReport, error) {
	if _, err := Check(ctx, dir, k); err != nil {
		return CompactReport{}, fmt.Errorf("compact store: %w", err)
	}
	return boltkv.Compact(ctx, boltkv.Options{Dir: dir, LockTimeout: lockTimeout, Logger: logger})
}
