package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// sweeperTest is a sweeper whose clock stands still unless the test moves it.
type sweeperTest struct {
	*sweeper
	store  *kvtest.Faulty
	log    *logBuffer
	clock  time.Time
	steps  time.Duration // by how much the clock was set
	events []audit.Event
	pauses []time.Duration
}

// newSweeperTest returns one whose files expire after a day.
func newSweeperTest(t *testing.T) *sweeperTest {
	t.Helper()
	s := &sweeperTest{
		store: &kvtest.Faulty{Store: newStore(t)}, log: &logBuffer{}, clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
	begin := s.clock
	m, err := memory.New(s.store, memory.Options{
		Defaults: memory.Settings{ExpireUnreadAfter: new(24 * time.Hour)}, Now: func() time.Time { return s.clock },
		Elapsed: func() time.Duration { return s.clock.Sub(begin) - s.steps },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.sweeper = newSweeper(m, &auditor{}, ops.NewMetrics("test"), s.log.logger())
	s.audit = func(_ context.Context, e audit.Event) { s.events = append(s.events, e) }
	s.after = func(d time.Duration) <-chan time.Time {
		s.pauses = append(s.pauses, d)
		now := make(chan time.Time, 1)
		now <- s.clock
		return now
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes files of a directory.
func (s *sweeperTest) create(t *testing.T, namespace, dir string, files int) {
	t.Helper()
	for i := 0; i < files; i += memory.MaxBatchCommands {
		var batch []memory.BatchCommand
		for j := i; j < min(i+memory.MaxBatchCommands, files); j++ {
			batch = append(batch, memory.BatchCommand{Command: memory.Create{Path: fmt.Sprintf("%s/%d", dir, j)}})
		}
		if result, err := s.memory.Batch(t.Context(), namespace, batch, ""); err != nil || result.Failed.IsError() {
			t.Fatal(result, err)
		}
	}
}

func (s *sweeperTest) view(t *testing.T, path string) {
	t.Helper()
	result, err := s.memory.Do(t.Context(), "n", memory.View{Path: path}, memory.Call{})
	if err != nil || result.IsError() {
		t.Fatal(result, err)
	}
}

// tick runs the sweeper until it has seen one tick.
func (s *sweeperTest) tick(t *testing.T, flush, expiry bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	flushTicks, expiryTicks := make(chan time.Time), make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx, flushTicks, expiryTicks)
	}()
	if flush {
		flushTicks <- s.clock
	}
	if expiry {
		expiryTicks <- s.clock
	}
	flushTicks <- s.clock // comes to it when all else was done, but for passes that go on
	cancel()
	<-done
}

func (s *sweeperTest) wantMetrics(t *testing.T, recorded, expired, ok, failed int) {
	t.Helper()
	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	ops.NewServer(ops.Options{Metrics: s.metrics, Logger: s.logger}).Handler.ServeHTTP(rec, req)
	for _, want := range []string{
		fmt.Sprintf("\nmemoryd_recorded_reads_total %d\n", recorded),
		fmt.Sprintf("\nmemoryd_expired_files_total %d\n", expired),
		fmt.Sprintf("\nmemoryd_sweeps_total{result=\"ok\"} %d\n", ok),
		fmt.Sprintf("\nmemoryd_sweeps_total{result=\"error\"} %d\n", failed),
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

func (s *sweeperTest) wantLog(t *testing.T, text string, times int) {
	t.Helper()
	if got := strings.Count(s.log.String(), text); got != times {
		t.Errorf("the log has %d times %s, want %d:\n%s", got, text, times, s.log)
	}
}

func TestSweeper(t *testing.T) {
	s := newSweeperTest(t)
	s.create(t, "n", "/memories/d", 3)
	s.create(t, "other", "/memories", 1)
	s.clock = s.clock.Add(time.Hour)
	s.view(t, "/memories/d/0")
	s.tick(t, true, false)
	s.wantMetrics(t, 1, 0, 0, 0)
	s.clock = s.clock.Add(23*time.Hour + 1)
	s.tick(t, false, true)
	s.wantMetrics(t, 1, 3, 1, 0)
	s.wantLog(t, `"level":"INFO","msg":"removed files that expired","namespace":"n","files":2`, 1)
	s.wantLog(t, `"level":"INFO","msg":"removed files that expired","namespace":"other","files":1`, 1)
	s.wantLog(t, `"level":"DEBUG","msg":"removed a file that expired","namespace":"n","path":"/memories/d/1","revision":4`, 1)
	want := audit.Event{
		Principal: "memoryd", Command: "expire", Namespace: "n", Path: "/memories/d/1", Outcome: "ok", Revision: 4,
	}
	if len(s.events) != 3 || s.events[0] != want {
		t.Errorf("got events %+v, want 3, the first %+v", s.events, want)
	}
	if len(s.pauses) != 0 {
		t.Errorf("paused %v, though there was no more to do", s.pauses)
	}
}

// TestSweeper_ClockSet sets the clock: nothing is removed for that, and the log says why.
func TestSweeper_ClockSet(t *testing.T) {
	s := newSweeperTest(t)
	s.create(t, "n", "/memories", 1)
	s.tick(t, true, true)
	const text = `"msg":"every file counts as viewed now`
	s.wantLog(t, text, 0)
	s.clock, s.steps = s.clock.Add(48*time.Hour), 48*time.Hour
	s.tick(t, false, true)
	s.wantMetrics(t, 0, 0, 2, 0)
	s.wantLog(t, text, 1)
	s.clock = s.clock.Add(24*time.Hour + 1)
	s.tick(t, true, true)
	s.wantMetrics(t, 0, 1, 3, 0)
	s.wantLog(t, text, 1)
}

// TestSweeper_Unknown loses the answer of the store: the trail has a line of the file that may be gone.
func TestSweeper_Unknown(t *testing.T) {
	s := newSweeperTest(t)
	s.create(t, "n", "/memories", 1)
	s.clock = s.clock.Add(25 * time.Hour)
	s.store.AfterUpdate = kvtest.OnCall(1, kv.ErrUnknown)
	s.expire(t.Context())
	want := []audit.Event{{
		Principal: "memoryd", Command: "expire", Namespace: "n", Path: "/memories/0", Outcome: "UNKNOWN",
	}}
	if diff := cmp.Diff(want, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s.wantMetrics(t, 0, 0, 0, 1)
	s.wantLog(t, `"level":"WARN","msg":"may have removed a file that expired","namespace":"n","path":"/memories/0"`, 1)
	s.expire(t.Context())
	s.wantMetrics(t, 0, 0, 1, 1)
}

// TestSweeper_GoesOn has more to remove than one pass does: the next comes after a pause, not at the next tick.
func TestSweeper_GoesOn(t *testing.T) {
	s := newSweeperTest(t)
	s.create(t, "n", "/memories/d", 1100)
	s.clock = s.clock.Add(25 * time.Hour)
	var again <-chan time.Time = make(chan time.Time)
	for passes := 1; again != nil; passes++ {
		if again = s.expire(t.Context()); (again != nil) != (passes < 3) {
			t.Fatalf("pass %d: goes on %t", passes, again != nil)
		}
	}
	s.wantMetrics(t, 0, 1100, 3, 0)
	if len(s.pauses) != 2 || s.pauses[0] != expiryPause {
		t.Errorf("paused %v, want twice %v", s.pauses, expiryPause)
	}

	s.create(t, "n", "/memories/d", 1100)
	s.clock = s.clock.Add(25 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.audit = func(context.Context, audit.Event) {
		if s.events = append(s.events, audit.Event{}); len(s.events) == 2200 {
			cancel()
		}
	}
	ticks := make(chan time.Time, 1)
	ticks <- s.clock
	s.run(ctx, nil, ticks) // ends only when the last file is gone
}

// TestSweeper_ReadsDue records views at once where so many wait.
func TestSweeper_ReadsDue(t *testing.T) {
	s := newSweeperTest(t)
	const files = 5000
	s.create(t, "n", "/memories", files)
	for i := 0; i < files; i += memory.MaxBatchCommands {
		var batch []memory.BatchCommand
		for j := i; j < min(i+memory.MaxBatchCommands, files); j++ {
			batch = append(batch, memory.BatchCommand{Command: memory.View{Path: fmt.Sprintf("/memories/%d", j)}})
		}
		if result, err := s.memory.Batch(t.Context(), "n", batch, ""); err != nil || result.Failed.IsError() {
			t.Fatal(result, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	updates := 0
	s.store.AfterUpdate = func(string) error {
		if updates++; updates == files/1000 {
			cancel()
		}
		return nil
	}
	s.run(ctx, nil, nil)
	s.wantMetrics(t, files, 0, 0, 0)
}

// TestSweeper_Trouble fails again and again: the log tells of each trouble once, and of its end.
func TestSweeper_Trouble(t *testing.T) {
	s := newSweeperTest(t)
	s.create(t, "n", "/memories", 1)
	s.view(t, "/memories/0")
	s.store.BeforeUpdate = func(string) error { return kv.ErrFull }
	s.flush(t.Context())
	s.flush(t.Context())
	s.wantLog(t, "cannot record when files were viewed", 1)
	s.store.BeforeUpdate = func(string) error { return kv.ErrReadOnly }
	s.flush(t.Context())
	s.wantLog(t, "cannot record when files were viewed", 2)
	s.wantMetrics(t, 0, 0, 0, 0)

	s.clock = s.clock.Add(48 * time.Hour)
	for range 3 {
		if again := s.expire(t.Context()); again != nil {
			t.Error("goes on after an error")
		}
	}
	s.wantLog(t, "cannot remove all files that expire", 1)
	s.wantMetrics(t, 0, 0, 0, 3)

	s.store.BeforeUpdate = nil
	s.flush(t.Context())
	s.flush(t.Context())
	s.wantLog(t, "views are recorded again", 1)
	s.expire(t.Context())
	s.wantLog(t, "files expire again", 1)
	s.wantMetrics(t, 1, 1, 1, 3)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	s.create(t, "n", "/memories", 1)
	s.view(t, "/memories/0")
	s.flush(stopped)
	s.expire(stopped)
	s.wantLog(t, context.Canceled.Error(), 0)
	s.wantMetrics(t, 1, 1, 1, 3)
}

// TestSweeper_Stop tells a stop from one that cut calls off.
func TestSweeper_Stop(t *testing.T) {
	for _, cutOff := range []bool{false, true} {
		t.Run(fmt.Sprintf("cutOff=%t", cutOff), func(t *testing.T) {
			s := newSweeperTest(t)
			s.create(t, "n", "/memories", 2)
			ctx, cancel := context.WithCancel(t.Context())
			stop := s.begin(ctx)
			s.clock = s.clock.Add(time.Hour)
			s.view(t, "/memories/0")
			cancel()
			stop(cutOff)
			s.wantMetrics(t, map[bool]int{true: 1}[cutOff], 0, 0, 0)

			next, err := memory.New(s.store, memory.Options{Now: func() time.Time { return s.clock }})
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			files, _, err := next.PlanExpiry(t.Context(), "n", memory.ExpiryQuery{
				UnreadAfter: new(time.Hour), Before: s.clock.Add(24 * time.Hour), Limit: 10,
			})
			if err != nil || len(files) != 2 || !files[0].Viewed.Equal(s.clock) {
				t.Fatalf("got %+v, %v; want two files, and that the first was viewed", files, err)
			}
			// Where calls were cut off, every file counts as viewed at the start.
			want := s.clock
			if cutOff {
				want = s.clock.Add(time.Hour)
			}
			if got := files[1].Expires; !got.Equal(want) {
				t.Errorf("the other expires at %v, want %v", got, want)
			}
		})
	}
}

// TestServer_RecordsReads views a file of a server that is then stopped: the next one knows.
func TestServer_RecordsReads(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Data: filepath.Join(dir, "data")}
	r := start(t, cfg)
	files := memoryv1.NewMemoryServiceClient(r.conn)
	for _, path := range []string{"/memories/a", "/memories/b"} {
		_, err := files.Create(t.Context(), &memoryv1.CreateRequest{Namespace: "n", Path: path})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := files.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories/a"}); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg)
	plan, err := memoryv1.NewAdminServiceClient(r.conn).PlanExpiry(t.Context(), &memoryv1.PlanExpiryRequest{
		Namespace: "n", ExpireUnreadAfter: durationpb.New(time.Hour),
		ExpireBefore: timestamppb.New(time.Now().Add(24 * time.Hour)),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := plan.GetFiles()
	if len(got) != 2 || got[0].GetViewedTime() == nil || got[1].GetViewedTime() != nil {
		t.Errorf("got %v, want two files of which the first was viewed", got)
	}
}
