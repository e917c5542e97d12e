package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// backupStore makes backups with the number of the backup as content, or fails.
type backupStore struct {
	made int
	errs map[int]error        // by number, from 1
	hook func(number int)     // is called before a backup is made
	read func(p []byte) error // is called before a backup is read
	open int                  // backups that were not closed
}

func (s *backupStore) Backup(context.Context) (kv.Backup, error) {
	s.made++
	if s.hook != nil {
		s.hook(s.made)
	}
	if err := s.errs[s.made]; err != nil {
		return nil, err
	}
	s.open++
	return &storeBackup{Reader: bytes.NewReader([]byte(fmt.Sprint(s.made))), store: s}, nil
}

type storeBackup struct {
	*bytes.Reader
	store *backupStore
}

// Read is the only way to the content, so that it can fail.
func (b *storeBackup) Read(p []byte) (int, error) {
	if b.store.read != nil {
		if err := b.store.read(p); err != nil {
			return 0, err
		}
	}
	return b.Reader.Read(p)
}

func (b *storeBackup) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{b}) }

func (b *storeBackup) Close() error {
	b.store.open--
	return nil
}

// scheduleTest is a schedule whose clock goes on while it waits, and only then.
type scheduleTest struct {
	*backupSchedule
	log   *logBuffer
	clock time.Time
	waits []time.Duration
}

// newScheduleTest returns a schedule that makes a backup every hour and keeps 3. Its first wait is at 12:00:00.
func newScheduleTest(t *testing.T, store kv.Backuper) *scheduleTest {
	t.Helper()
	s := &scheduleTest{log: &logBuffer{}, clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	s.backupSchedule = &backupSchedule{
		store: store, dir: filepath.Join(t.TempDir(), "backups"), every: time.Hour, keep: 3,
		logger: s.log.logger(), metrics: ops.NewMetrics("test"), now: func() time.Time { return s.clock },
		verify: func(context.Context, string) (CheckReport, error) { return CheckReport{Namespaces: 1}, nil },
	}
	return s
}

// runs lets the schedule wait a number of times, and then ends it.
func (s *scheduleTest) runs(t *testing.T, waits int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.waits = nil
	s.wait = func(ctx context.Context, d time.Duration) error {
		if len(s.waits) == waits {
			cancel()
			return ctx.Err()
		}
		s.waits = append(s.waits, d)
		s.clock = s.clock.Add(d)
		return nil
	}
	s.run(ctx)
}

func (s *scheduleTest) add(t *testing.T, name string) {
	t.Helper()
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, name), []byte("old"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// files are the names in the directory and what the files contain.
func (s *scheduleTest) files(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(s.dir, entry.Name()))
		if err != nil && !entry.IsDir() {
			t.Fatal(err)
		}
		files[entry.Name()] = string(content)
	}
	return files
}

func (s *scheduleTest) wantMetrics(t *testing.T, ok, failed int, newest time.Time) {
	t.Helper()
	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	ops.NewServer(ops.Options{Metrics: s.metrics, Logger: s.logger}).Handler.ServeHTTP(rec, req)
	for _, want := range []string{
		fmt.Sprintf("\nmemoryd_backups_total{result=\"ok\"} %d\n", ok),
		fmt.Sprintf("\nmemoryd_backups_total{result=\"error\"} %d\n", failed),
		fmt.Sprintf("\nmemoryd_backup_last_success_timestamp_seconds %v\n", float64(newest.Unix())),
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

func TestBackupSchedule(t *testing.T) {
	store := &backupStore{}
	s := newScheduleTest(t, store)
	s.runs(t, 5)
	want := map[string]string{
		"memoryd-20261130T140000Z.backup": "3",
		"memoryd-20261130T150000Z.backup": "4",
		"memoryd-20261130T160000Z.backup": "5",
	}
	if diff := cmp.Diff(want, s.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{0, time.Hour, time.Hour, time.Hour, time.Hour}, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	s.wantMetrics(t, 5, 0, s.clock)
	if store.open != 0 {
		t.Errorf("%d backups were not closed", store.open)
	}
	if n := strings.Count(s.log.String(), `"level":"INFO","msg":"made scheduled backup"`); n != 5 {
		t.Errorf("%d backups were logged, want 5:\n%s", n, s.log)
	}
	info, err := os.Stat(filepath.Join(s.dir, "memoryd-20261130T160000Z.backup"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// The time that a backup takes is part of the time between two.
func TestBackupSchedule_TimeOfBackup(t *testing.T) {
	s := newScheduleTest(t, nil)
	took := map[int]time.Duration{1: 20 * time.Minute, 2: 2 * time.Hour}
	s.store = &backupStore{hook: func(number int) { s.clock = s.clock.Add(took[number]) }}
	s.runs(t, 4)
	if diff := cmp.Diff([]time.Duration{0, 40 * time.Minute, 0, time.Hour}, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestBackupSchedule_First(t *testing.T) {
	for _, tt := range []struct {
		newest string
		want   time.Duration
	}{
		{"memoryd-20261130T114500Z.backup", 45 * time.Minute},
		{"memoryd-20261130T110000Z.backup", 0},
		{"memoryd-20251130T110000Z.backup", 0},
		{"memoryd-20271130T110000Z.backup", 0}, // Of a clock that was wrong: it says nothing.
		{"memoryd-20261130T114500Z.backup.partial", 0},
		{"other-20261130T114500Z.backup", 0},
	} {
		t.Run(tt.newest, func(t *testing.T) {
			s := newScheduleTest(t, &backupStore{})
			s.add(t, tt.newest)
			s.add(t, "memoryd-20200101T000000Z.backup")
			s.runs(t, 1)
			if diff := cmp.Diff([]time.Duration{tt.want}, s.waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// After a start the metrics know of the backups that are there.
func TestBackupSchedule_KnowsNewest(t *testing.T) {
	s := newScheduleTest(t, &backupStore{})
	s.add(t, "memoryd-20261130T114500Z.backup")
	s.runs(t, 0)
	s.wantMetrics(t, 0, 0, time.Date(2026, 11, 30, 11, 45, 0, 0, time.UTC))
}

func TestBackupSchedule_RemovesOnlyItsOwn(t *testing.T) {
	s := newScheduleTest(t, &backupStore{})
	s.keep = 1
	stay := map[string]string{}
	for _, name := range []string{
		"memoryd.backup", "memoryd-20261130.backup", "memoryd-20261130T110000Z.backup.gz", "memoryd-20261399T110000Z.backup",
		"memoryd-20261130T110000.backup", "Memoryd-20261130T110000Z.backup", "memoryd-20261130T110000Z-old.backup", "notes",
	} {
		s.add(t, name)
		stay[name] = "old"
	}
	if err := os.Mkdir(filepath.Join(s.dir, "memoryd-20261130T100000Z.backup"), 0o700); err != nil {
		t.Fatal(err)
	}
	stay["memoryd-20261130T100000Z.backup"] = "" // a directory
	s.add(t, "memoryd-20261130T110000Z.backup")
	s.add(t, "memoryd-20261130T105959Z.backup")
	s.add(t, "memoryd-20261130T113000Z.backup.partial") // What a process left that was killed.
	s.runs(t, 1)
	stay["memoryd-20261130T120000Z.backup"] = "1"
	if diff := cmp.Diff(stay, s.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBackupSchedule_Fails(t *testing.T) {
	store := &backupStore{errs: map[int]error{1: kv.ErrFull, 2: errors.New("disk error")}}
	s := newScheduleTest(t, store)
	s.runs(t, 4)
	want := []time.Duration{0, backupRetry, backupRetry, time.Hour}
	if diff := cmp.Diff(want, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	s.wantMetrics(t, 2, 2, s.clock)
	if n := strings.Count(s.log.String(), `"level":"ERROR","msg":"scheduled backup failed"`); n != 2 {
		t.Errorf("%d errors were logged, want 2:\n%s", n, s.log)
	}
}

// Where backups are more frequent than that, one that failed is not tried sooner than the next is due.
func TestBackupSchedule_RetriesNoSooner(t *testing.T) {
	s := newScheduleTest(t, &backupStore{errs: map[int]error{1: kv.ErrFull}})
	s.every = time.Minute
	s.runs(t, 2)
	if diff := cmp.Diff([]time.Duration{0, time.Minute}, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestBackupSchedule_CannotWrite(t *testing.T) {
	store := &backupStore{}
	s := newScheduleTest(t, store)
	store.read = func([]byte) error { return errors.New("disk error") }
	s.add(t, "memoryd-20261130T100000Z.backup")
	s.runs(t, 1)
	if diff := cmp.Diff(map[string]string{"memoryd-20261130T100000Z.backup": "old"}, s.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if store.open != 0 {
		t.Errorf("%d backups were not closed", store.open)
	}

	// A directory that cannot be made.
	s = newScheduleTest(t, store)
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.runs(t, 1)
	if !strings.Contains(s.log.String(), "scheduled backups cannot be listed") ||
		!strings.Contains(s.log.String(), "scheduled backup failed") {
		t.Errorf("the log does not say that the directory cannot be used:\n%s", s.log)
	}
}

// A stop in the middle of a backup is none that failed, and leaves no part of it.
func TestBackupSchedule_Stop(t *testing.T) {
	store := &backupStore{}
	s := newScheduleTest(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	store.hook = func(int) { cancel() }
	s.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	s.run(ctx)
	if diff := cmp.Diff(map[string]string{}, s.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	s.wantMetrics(t, 0, 0, time.Unix(0, 0))
	if s.log.String() != "" {
		t.Errorf("something was logged:\n%s", s.log)
	}
}

func TestNew_NoBackups(t *testing.T) {
	_, err := New(t.Context(), Config{
		Listen: []string{"127.0.0.1:0"}, Store: newStore(t), BackupEvery: time.Hour, BackupDir: t.TempDir(),
	})
	var invalid *ConfigError
	if !errors.As(err, &invalid) || invalid.Field != "BackupEvery" {
		t.Errorf("got %v, want that this store cannot make backups", err)
	}
}

// TestBackupSchedule_Damaged makes backups that cannot be restored: the older ones are kept, and the failure is seen.
func TestBackupSchedule_Damaged(t *testing.T) {
	s := newScheduleTest(t, &backupStore{})
	for _, name := range []string{
		"memoryd-20260101T000000Z.backup", "memoryd-20260102T000000Z.backup", "memoryd-20260103T000000Z.backup",
	} {
		s.add(t, name)
	}
	s.verify = func(context.Context, string) (CheckReport, error) { return CheckReport{}, kv.ErrCorrupt }
	before := s.files(t)
	s.runs(t, 3)
	if diff := cmp.Diff(before, s.files(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestBackupSchedule_Empty backs up a store that is empty, as after the loss of its disk: the older backups are kept.
func TestBackupSchedule_Empty(t *testing.T) {
	s := newScheduleTest(t, &backupStore{})
	for _, name := range []string{
		"memoryd-20260101T000000Z.backup", "memoryd-20260102T000000Z.backup", "memoryd-20260103T000000Z.backup",
	} {
		s.add(t, name)
	}
	s.verify = func(context.Context, string) (CheckReport, error) { return CheckReport{}, nil }
	s.runs(t, 2)
	if got := s.files(t); len(got) != 5 || got["memoryd-20260101T000000Z.backup"] == "" {
		t.Errorf("left: %q", got)
	}
}

// TestBackupSchedule_Future finds backups of a clock that was ahead: they push out none of the present.
func TestBackupSchedule_Future(t *testing.T) {
	s := newScheduleTest(t, &backupStore{})
	for _, name := range []string{
		"memoryd-20990101T000000Z.backup", "memoryd-20990102T000000Z.backup", "memoryd-20990103T000000Z.backup",
	} {
		s.add(t, name)
	}
	s.runs(t, 5)
	if s.waits[0] != 0 {
		t.Errorf("the first backup is made after %s, want at once", s.waits[0])
	}
	if got := s.files(t); len(got) != 6 {
		t.Errorf("left: %q, want those of the future and three of the present", got)
	}
}
