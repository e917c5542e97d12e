package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

const (
	// minBackupEvery keeps the names of backups apart, which have seconds.
	minBackupEvery = time.Second
	// backupRetry is how long after a backup that failed the next is tried, where that is sooner than the schedule.
	backupRetry = 10 * time.Minute
)

// Names of scheduled backups, with the time in UTC when they were begun. A file gets its name when it is complete.
const (
	backupPrefix  = "memoryd-"
	backupTime    = "20060102T150405Z"
	backupSuffix  = ".backup"
	partialSuffix = ".backup.partial"
)

// backupSchedule makes a backup of the store from time to time, and keeps the newest ones.
type backupSchedule struct {
	store   kv.Backuper
	dir     string
	every   time.Duration
	keep    int
	logger  *slog.Logger
	metrics *ops.Metrics

	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error // for d, or until ctx is done and with its error

	verify func(ctx context.Context, file string) (CheckReport, error)
}

// newBackupSchedule returns the schedule of a configuration, nil where it has none.
func newBackupSchedule(cfg Config, store kv.Store, metrics *ops.Metrics) (*backupSchedule, error) {
	if cfg.BackupEvery == 0 {
		return nil, nil
	}
	backuper, ok := kv.As[kv.Backuper](store)
	if !ok {
		return nil, &ConfigError{"BackupEvery", cfg.BackupEvery, "it must be 0s (off), since this store cannot make backups"}
	}
	return &backupSchedule{
		store: backuper, dir: cfg.BackupDir, every: cfg.BackupEvery, keep: cfg.BackupKeep,
		logger: cfg.Logger, metrics: metrics, now: time.Now, wait: wait, verify: verifyFor(store, cfg.keyset()),
	}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes backups until ctx is done. What fails is logged and counted, and tried again.
func (b *backupSchedule) run(ctx context.Context) {
	next := b.first(ctx)
	for b.wait(ctx, next) == nil {
		began := b.now()
		name, report, err := b.backUp(ctx, began)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.fail(ctx, "scheduled backup failed", err)
			next = min(b.every, backupRetry)
			continue
		}
		b.metrics.BackupMade()
		b.metrics.NewestBackup(began)
		b.logger.InfoContext(ctx, "made scheduled backup", "file", name,
			"namespaces", report.Namespaces, "files", report.Files, "took", b.now().Sub(began))
		if report.Namespaces == 0 {
			b.logger.WarnContext(ctx, "the store is empty, so that old scheduled backups are kept", "dir", b.dir)
		} else if err := b.prune(began); err != nil {
			b.fail(ctx, "old scheduled backups were not removed", err)
		}
		next = max(0, b.every-b.now().Sub(began))
	}
}

func (b *backupSchedule) fail(ctx context.Context, text string, err error) {
	b.metrics.BackupFailed()
	b.logger.ErrorContext(ctx, text, "dir", b.dir, "error", err)
}

// first returns how long to wait for the first backup: until the newest one is as old as the schedule says.
func (b *backupSchedule) first(ctx context.Context) time.Duration {
	times, err := b.list(backupSuffix)
	if err != nil {
		b.logger.ErrorContext(ctx, "scheduled backups cannot be listed", "dir", b.dir, "error", err)
		return 0
	}
	times = untilNow(times, b.now())
	if len(times) == 0 {
		return 0
	}
	newest := slices.MaxFunc(times, time.Time.Compare)
	b.metrics.NewestBackup(newest)
	return max(0, newest.Add(b.every).Sub(b.now()))
}

func (b *backupSchedule) path(at time.Time, suffix string) string {
	return filepath.Join(b.dir, backupPrefix+at.UTC().Format(backupTime)+suffix)
}

// list returns the times of all files whose names are those of backups, with a suffix. Files with other names are none
// of ours. No directory is no files.
func (b *backupSchedule) list(suffix string) ([]time.Time, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var times []time.Time
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), backupPrefix)
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		if name, ok = strings.CutSuffix(name, suffix); !ok {
			continue
		}
		if at, err := time.Parse(backupTime, name); err == nil && at.Format(backupTime) == name {
			times = append(times, at)
		}
	}
	return times, nil
}

// backUp makes one backup and returns the path of its file and what is in it. One that could not be restored, since
// the store is damaged, is none: it must not take the place of an older one.
func (b *backupSchedule) backUp(ctx context.Context, at time.Time) (path string, report CheckReport, err error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", CheckReport{}, err
	}
	if err := b.removePartial(); err != nil {
		return "", CheckReport{}, err
	}
	backup, err := b.store.Backup(ctx)
	if err != nil {
		return "", CheckReport{}, err
	}
	if err := boltkv.CheckRoom(b.dir, backup.Size()); err != nil {
		return "", CheckReport{}, errors.Join(err, backup.Close())
	}
	path, partial := b.path(at, backupSuffix), b.path(at, partialSuffix)
	err = errors.Join(writeSynced(ctx, partial, backup), backup.Close())
	if err == nil {
		report, err = b.verify(ctx, partial)
	}
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return "", CheckReport{}, errors.Join(err, b.removePartial())
	}
	return path, report, syncDir(b.dir)
}

// removePartial removes backups that were not completed.
func (b *backupSchedule) removePartial() error {
	times, err := b.list(partialSuffix)
	if err != nil {
		return err
	}
	for _, at := range times {
		err = errors.Join(err, os.Remove(b.path(at, partialSuffix)))
	}
	return err
}

// untilNow leaves out times of the future.
func untilNow(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(times, func(at time.Time) bool { return at.After(now) })
}

// prune removes the oldest backups beyond those that are kept. Backups of the future are those of a clock that was
// wrong: they count for nothing, so that they push out no others, and are left to the operator.
func (b *backupSchedule) prune(now time.Time) error {
	times, err := b.list(backupSuffix)
	if err != nil {
		return err
	}
	times = untilNow(times, now)
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	for i := b.keep; i < len(times); i++ {
		err = errors.Join(err, os.Remove(b.path(times[i], backupSuffix)))
	}
	return err
}

// writeSynced writes a new file that is on disk when it returns nil.
func writeSynced(ctx context.Context, path string, r io.Reader) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &contextReader{ctx: ctx, r: r})
	return errors.Join(err, file.Sync(), file.Close())
}

// contextReader stops reading when its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// syncDir makes the names of new files in a directory as durable as their contents.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // Directories cannot be synced there.
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
