package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// lookedAt is when the service answers.
var lookedAt = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func latencyOf(p50, p99, most time.Duration) *memoryv1.Latency {
	return &memoryv1.Latency{
		P50: durationpb.New(p50), P90: durationpb.New(p99), P99: durationpb.New(p99), Max: durationpb.New(most),
	}
}

// busy is an answer of a service that has something to do.
func busy() *memoryv1.GetActivityResponse {
	return &memoryv1.GetActivityResponse{
		Version:      "v1.2.3",
		StartTime:    timestamppb.New(lookedAt.Add(-76 * time.Hour)),
		CurrentTime:  timestamppb.New(lookedAt),
		Window:       durationpb.New(50 * time.Second),
		RunningCalls: 3, MaxRunningCalls: 1024, Connections: 12,
		Methods: []*memoryv1.MethodActivity{
			{Method: "/memoryd.v1.AdminService/Backup", Calls: 1},
			{
				Method: "/memoryd.v1.MemoryService/StrReplace", Calls: 8000, FailedCalls: 700, RecentCalls: 500, RecentFailedCalls: 100,
				RecentTotalTime: durationpb.New(5 * time.Second),
				Latency:         latencyOf(8*time.Millisecond, 25*time.Millisecond, 1200*time.Millisecond),
			},
			{
				Method: "/memoryd.v1.MemoryService/View", Calls: 9_000_000, FailedCalls: 5, RecentCalls: 125_000, RecentFailedCalls: 1,
				RecentTotalTime: durationpb.New(25 * time.Second),
				Latency:         latencyOf(150*time.Microsecond, 950*time.Microsecond, 9600*time.Microsecond),
			},
		},
		Namespaces: []*memoryv1.NamespaceActivity{
			{Namespace: "acme/support/user-42", Calls: 100_000, TotalTime: durationpb.New(20 * time.Second)},
			{Namespace: "acme/sales", Calls: 25_500, FailedCalls: 101, TotalTime: durationpb.New(10 * time.Second)},
		},
		Store: &memoryv1.StoreActivity{
			SizeBytes: 12_900_000, FreeBytes: 4_300_000, WaitingUpdates: 2, Updates: 8000, Commits: 4000,
			RecentUpdates: 420, RecentCommits: 100, CommitLatency: latencyOf(6*time.Millisecond, 24*time.Millisecond, time.Second),
		},
	}
}

func TestActivityView(t *testing.T) {
	later := func(change func(*memoryv1.GetActivityResponse)) *memoryv1.GetActivityResponse {
		resp := busy()
		resp.CurrentTime = timestamppb.New(lookedAt.Add(2 * time.Second))
		change(resp)
		return resp
	}
	tests := []struct {
		name          string
		view          activityView
		width, height int
		want          string
	}{
		{"the last minute", activityView{now: busy()}, 0, 0, `
memoryd v1.2.3 at host:7711, up 3d4h, 2026-11-30T12:00:00Z
calls: 2510/s, 2.0/s failed, 3 of 1024 running; 12 connections
store: 12.3M, 4.1M free; 2.0 commits/s of 4.2 updates, p50 6.0ms, p99 24ms; 2 waiting
rates and latencies: of the last 50s

METHOD                   CALLS/S FAILED/S  TIME/S     P50     P99     MAX
MemoryService/View          2500     <0.1   500ms   150µs   950µs   9.6ms
MemoryService/StrReplace      10      2.0   100ms   8.0ms    25ms    1.2s
AdminService/Backup            0        0       0       -       -       -

NAMESPACE                CALLS/S FAILED/S  TIME/S
acme/support/user-42        2000        0   400ms
acme/sales                   510      2.0   200ms
`},
		{"an interval, by failures", activityView{
			order: memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED,
			now: later(func(r *memoryv1.GetActivityResponse) {
				r.Methods[1].Calls += 30
				r.Methods[1].FailedCalls += 6
				r.Methods = append(r.Methods, &memoryv1.MethodActivity{
					Method: "/memoryd.v1.FileService/Put", Calls: 2, FailedCalls: 1, RecentCalls: 2,
				})
				r.Store.Commits += 21
				r.Namespaces, r.MaxMissingCalls = nil, 7
			}),
			before: busy(),
		}, 0, 0, `
memoryd v1.2.3 at host:7711, up 3d4h, 2026-11-30T12:00:02Z
calls: 16/s, 3.5/s failed, 3 of 1024 running; 12 connections; very many namespaces: each may have had 7 calls a minute more
store: 12.3M, 4.1M free; 10 commits/s of 4.2 updates, p50 6.0ms, p99 24ms; 2 waiting
calls, failed and commits in a second: of the last 2.0s; namespaces and all else: of the last 50s

METHOD                   CALLS/S FAILED/S  TIME/S     P50     P99     MAX
MemoryService/StrReplace      15      3.0   100ms   8.0ms    25ms    1.2s
FileService/Put              1.0      0.5       0       -       -       -
AdminService/Backup            0        0       0       -       -       -
MemoryService/View             0        0   500ms   150µs   950µs   9.6ms
`},
		{"a terminal that is small, and a problem", activityView{
			now: busy(), problem: "memoryd cannot be reached at host:7711: start memoryd there", answered: lookedAt,
		}, 61, 10, `
NO ANSWER since 12:00:00Z: memoryd cannot be reached at host…
calls: 2510/s, 2.0/s failed, 3 of 1024 running; 12 connectio…
store: 12.3M, 4.1M free; 2.0 commits/s of 4.2 updates, p50 6…
rates and latencies: of the last 50s

METHOD       CALLS/S FAILED/S  TIME/S     P50     P99     MAX
MemoryServi…    2500     <0.1   500ms   150µs   950µs   9.6ms

NAMESPACE    CALLS/S FAILED/S  TIME/S
acme/suppor…    2000        0   400ms
`},
		{"nothing yet", activityView{now: &memoryv1.GetActivityResponse{
			Version: "devel", StartTime: timestamppb.New(lookedAt), CurrentTime: timestamppb.New(lookedAt),
			Methods: []*memoryv1.MethodActivity{{Method: "/memoryd.v1.MemoryService/View", Calls: 1, RecentCalls: 1}},
		}}, 0, 0, `
memoryd devel at host:7711, up 0s, 2026-11-30T12:00:00Z
calls: 100/s, 0/s failed, 0 of 0 running; 0 connections
rates and latencies: of the last 0

METHOD             CALLS/S FAILED/S  TIME/S     P50     P99     MAX
MemoryService/View     100        0       0       -       -       -
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.view.addr = "host:7711"
			got := "\n" + strings.Join(tt.view.lines(tt.width, tt.height), "\n") + "\n"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the service sends, and however small the terminal is, no line is longer than it, none steers it, and there
// are not more of them than it has.
func TestActivityView_Hostile(t *testing.T) {
	resp := busy()
	resp.Version = "\x1b]0;title\x07"
	resp.Methods[0].Method = "\x1b[2J\u202e\u009b31m"
	resp.Namespaces[0].Namespace = "a\r\nb\tc\x7f\xff" + strings.Repeat("ü", 300)
	view := activityView{addr: "\x1b[31m", now: resp, problem: "\x1b[2J"}
	for width := range 120 {
		for height := range 30 {
			lines := view.lines(width, height)
			if height > 0 && len(lines) > height {
				t.Fatalf("%d×%d: got %d lines", width, height, len(lines))
			}
			for _, line := range lines {
				if width > 0 && utf8.RuneCountInString(line) > width {
					t.Fatalf("%d×%d: got a line of %d characters: %q", width, height, utf8.RuneCountInString(line), line)
				}
				if strings.ContainsAny(line, "\x1b\r\n\t\x7f\u202e\u009b\x07") || !utf8.ValidString(line) {
					t.Fatalf("%d×%d: got %q, want nothing that steers a terminal", width, height, line)
				}
			}
		}
	}
}

// After a start the counts begin at 0, and are no rates of the interval.
func TestActivityView_Update(t *testing.T) {
	view := activityView{now: busy(), problem: "gone"}
	next := proto.CloneOf(view.now)
	view.update(next, memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME)
	if view.before == nil || view.now != next || view.problem != "" ||
		view.order != memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME {
		t.Errorf("got %+v, want the next answer after the first", view)
	}
	restarted := proto.CloneOf(next)
	restarted.StartTime = timestamppb.New(lookedAt)
	view.update(restarted, memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME)
	if view.before != nil {
		t.Errorf("got rates since an answer of another process")
	}
}

func TestFormatActivity(t *testing.T) {
	for rate, want := range map[float64]string{
		-1: "0", 0: "0", 0.001: "<0.1", 0.05: "0.1", 9.94: "9.9", 9.96: "10", 812.4: "812", 9999: "9999", 9999.6: "10.0k",
		250_000: "250.0k", 999_949: "999.9k", 999_951: "1.0M",
	} {
		if got := formatRate(rate); got != want {
			t.Errorf("formatRate(%g): got %s, want %s", rate, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-1: "0", 0: "0", 30: "0.0µs", 1500: "1.5µs", 999_400: "999µs", 999_600: "1.0ms", 99_900_000: "100ms",
		999_600_000: "1.0s", 99 * time.Second: "99s", 100 * time.Second: "1.7m", 3 * time.Hour: "3.0h",
	} {
		if got := formatLatency(d); got != want {
			t.Errorf("formatLatency(%d): got %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 25*time.Hour - 1: "1d0h",
		90 * time.Minute: "1h30m", 800 * time.Hour: "33d8h",
	} {
		if got := formatUptime(d); got != want {
			t.Errorf("formatUptime(%s): got %s, want %s", d, got, want)
		}
	}
}
