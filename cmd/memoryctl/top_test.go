package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

func TestTop(t *testing.T) {
	s := startService(t)
	s.unary = always(busy(), nil)
	const first = "memoryd v1.2.3 at ADDR, up 3d4h, 2026-11-30T12:00:00Z"
	for _, line := range []string{"top", "top --once"} {
		got := s.run(t, "", strings.Fields(line)...)
		head, rest, _ := strings.Cut(strings.ReplaceAll(got.Stdout, s.addr, "ADDR"), "\n")
		if got.Status != exitOK || got.Stderr != "" || head != first || !strings.Contains(rest, "acme/support/user-42  ") {
			t.Errorf("%s: got %+v, want a table", line, got)
		}
	}
	got := s.runOnTerminal(t, "", "top", "--once", "--sort", "failed", "--namespaces", "7")
	if got.Status != exitOK || strings.Contains(got.Stdout, "\x1b") || !strings.HasPrefix(got.Stdout, "memoryd v1.2.3") {
		t.Errorf("once on a terminal: got %+v, want a table", got)
	}
	requests := s.requests()
	want := &memoryv1.GetActivityRequest{MaxNamespaces: 7, Order: memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED}
	if diff := cmp.Diff(want, requests[len(requests)-1], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}

	got = s.run(t, "", "top", "--once", "-o", "json")
	var resp memoryv1.GetActivityResponse
	if err := protojson.Unmarshal([]byte(got.Stdout), &resp); err != nil || strings.Count(got.Stdout, "\n") != 1 {
		t.Fatalf("JSON: got %+v (%v), want one line", got, err)
	}
	if diff := cmp.Diff(busy(), &resp, protocmp.Transform()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestTop_Errors(t *testing.T) {
	denied := statusError(codes.PermissionDenied, "NOT_PERMITTED", "the caller has no right to do that", true)
	unknown := status.Error(codes.Unimplemented, "unknown method GetActivity for service memoryd.v1.AdminService")
	const usage = "\nRun 'memoryctl top --help' for usage.\n"
	for _, tt := range []struct {
		line string
		err  error
		want outcome
	}{
		{"top", denied, outcome{exitOther, "", "memoryctl: the caller has no right to do that: ask whoever runs memoryd for " +
			"a right in all namespaces: admin on ** (PERMISSION_DENIED, NOT_PERMITTED)\n"}},
		{"top", unknown, outcome{exitOther, "", "memoryctl: this memoryd is older than memoryctl top: it cannot tell what " +
			"it does (UNIMPLEMENTED)\n"}},
		{"top -o json", denied, outcome{exitOther, "", "memoryctl: the caller has no right to do that: ask whoever runs " +
			"memoryd for a right in all namespaces: admin on ** (PERMISSION_DENIED, NOT_PERMITTED)\n"}},
		{"top --interval 10ms", nil, outcome{exitUsage, "", "memoryctl: --interval 10ms: want 100ms or more" + usage}},
		{"top --namespaces 0", nil, outcome{exitUsage, "", "memoryctl: --namespaces 0: want 1 to 100" + usage}},
		{"top --namespaces 101", nil, outcome{exitUsage, "", "memoryctl: --namespaces 101: want 1 to 100" + usage}},
		{"top --sort name", nil, outcome{exitUsage, "", `memoryctl: --sort "name": want calls, time, failed` + usage}},
	} {
		s := startService(t)
		s.unary = always(busy(), tt.err)
		if diff := cmp.Diff(tt.want, s.run(t, "", strings.Fields(tt.line)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
	// Whoever is refused reads it where they typed, and not on a screen that vanishes.
	s := startService(t)
	s.unary = always(nil, denied)
	if got := s.runOnTerminal(t, "", "top"); got.Status != exitOther || got.Stdout != "" {
		t.Errorf("on a terminal: got %+v, want only an error", got)
	}
}

// With -o json there is a line for every look, until somebody interrupts it or reads no more.
func TestTop_JSONLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		var stdout bytes.Buffer
		looks := 0
		run := &top{
			c: &cli{stdout: &stdout, isTerminal: func(any) bool { return false }}, interval: time.Minute,
			get: func(context.Context, *memoryv1.GetActivityRequest) (*memoryv1.GetActivityResponse, error) {
				looks++
				return busy(), nil
			},
		}
		time.AfterFunc(150*time.Second, interrupt)
		if err := run.printLines(ctx, false); err != nil {
			t.Error(err)
		}
		if lines := strings.Count(stdout.String(), "\n"); looks != 3 || lines != 3 {
			t.Errorf("got %d looks and %d lines in two and a half minutes, want 3", looks, lines)
		}
		run.c.stdout = errorWriter{errBroken}
		if err := run.printLines(t.Context(), false); !errors.Is(err, errBroken) {
			t.Errorf("got %v from an output that is closed, want its error", err)
		}
	})
}

// watched is a run of top in a bubble, on a terminal and with a service that are the test's.
type watched struct {
	t    *testing.T
	keys chan byte
	done chan error

	mu            sync.Mutex // of all that follows; tests change it with set
	width, height int
	shown         bytes.Buffer
	left          int                      // how often the screen was left
	asked         []memoryv1.ActivityOrder // by top
	resp          *memoryv1.GetActivityResponse
	err           error
	delay         time.Duration // of an answer
}

func watchFake(ctx context.Context, t *testing.T) *watched {
	w := &watched{t: t, keys: make(chan byte), done: make(chan error, 1), width: 90, height: 20, resp: busy()}
	s := &screen{out: w, keys: w.keys, size: w.size, leave: func() { w.set(func() { w.left++ }) }}
	run := &top{c: &cli{addr: "host:7711", timeout: 30 * time.Second}, interval: 2 * time.Second, namespaces: 10, get: w.get}
	go func() {
		err := run.run(ctx, s, busy())
		s.close()
		w.done <- err
	}()
	return w
}

func (w *watched) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Write is what the terminal shows.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown.Write(p)
}

func (w *watched) size() (width, height int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.width, w.height
}

func (w *watched) get(ctx context.Context, req *memoryv1.GetActivityRequest) (*memoryv1.GetActivityResponse, error) {
	w.mu.Lock()
	w.asked = append(w.asked, req.GetOrder())
	delay := w.delay
	w.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return proto.CloneOf(w.resp), w.err
}

// page returns the lines of what was drawn last, and forgets it.
func (w *watched) page() []string {
	w.t.Helper()
	lines := w.current()
	w.set(w.shown.Reset)
	return lines
}

// current returns the lines of what is on the screen.
func (w *watched) current() []string {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	pages := strings.Split(w.shown.String(), screenHome)
	return strings.Split(strings.TrimSuffix(pages[len(pages)-1], screenRest), lineEnd)
}

// wantAsked checks which orders were asked for.
func (w *watched) wantAsked(want ...memoryv1.ActivityOrder) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.asked); diff != "" {
		w.t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// advance moves the clock of the service. It is for set.
func (w *watched) advance(by time.Duration) {
	w.resp.CurrentTime = timestamppb.New(w.resp.GetCurrentTime().AsTime().Add(by))
}

func TestTop_Watch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFake(t.Context(), t)
		page := w.page()
		if got, want := page[6], "MemoryService/View          2500     <0.1   500ms   150µs   950µs   9.6ms"; got != want {
			t.Errorf("first: got %q, want the last minute: %q", got, want)
		}
		if got, want := page[len(page)-1], "q: quit   s: sort by time (now: calls)"; got != want {
			t.Errorf("below: got %q, want %q", got, want)
		}

		w.set(func() {
			w.advance(2 * time.Second)
			w.resp.Methods[2].Calls += 2000
		})
		time.Sleep(2 * time.Second)
		if got := w.page()[6]; !strings.HasPrefix(got, "MemoryService/View          1000        0 ") {
			t.Errorf("after the interval: got %q, want the rate of the interval", got)
		}

		w.keys <- 's'
		if page := w.page(); page[len(page)-1] != "q: quit   s: sort by failed (now: time)" {
			t.Errorf("sorted: got %q below", page[len(page)-1])
		}
		w.wantAsked(memoryv1.ActivityOrder_ACTIVITY_ORDER_CALLS, memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME)

		// A smaller terminal shows less from the next drawing on.
		w.set(func() { w.width, w.height = 40, 5 })
		time.Sleep(2 * time.Second)
		if page := w.page(); len(page) != 5 || page[4] != "q: quit   s: sort by failed (now: time)" {
			t.Errorf("small: got %q, want 5 lines", page)
		}

		w.keys <- 'q'
		if err := <-w.done; err != nil {
			t.Error(err)
		}
		if got := w.shown.String(); got != screenLeave || w.left != 1 {
			t.Errorf("at the end: got %q, want that the screen is left", got)
		}
	})
}

// What was seen stays while memoryd does not answer, with the time since, and goes on when it is back.
func TestTop_WatchOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFake(t.Context(), t)
		before := w.page()
		began := time.Now().UTC().Format("15:04:05Z")
		w.set(func() { w.err = status.Error(codes.Unavailable, "connection refused") })
		for range 3 {
			time.Sleep(2 * time.Second)
			page := w.page()
			if want := "NO ANSWER since " + began + ": memoryd cannot be reached at host:7711: "; !strings.HasPrefix(page[0], want) {
				t.Errorf("got %q, want %q", page[0], want)
			}
			if diff := cmp.Diff(before[1:], page[1:]); diff != "" {
				t.Errorf("the rest of the screen changed (-before +now):\n%s", diff)
			}
		}
		w.set(func() {
			w.err = nil
			w.advance(8 * time.Second)
			w.resp.StartTime = w.resp.GetCurrentTime() // It was started anew.
		})
		time.Sleep(2 * time.Second)
		if got, want := w.page()[0], "memoryd v1.2.3 at host:7711, up 0s, 2026-11-30T12:00:08Z"; got != want {
			t.Errorf("got %q when it is back, want %q", got, want)
		}
		close(w.keys) // Standard input may end: the interrupt does it then.
		time.Sleep(2 * time.Second)
		if got := w.page()[0]; got == "" {
			t.Error("nothing is drawn when there are no keys any more")
		}
	})
}

// Numbers that are old are not shown as if they were of now, while nobody knows yet whether an answer comes.
func TestTop_WatchHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFake(t.Context(), t)
		began := time.Now().UTC().Format("15:04:05Z")
		w.set(func() { w.delay, w.err = 10*time.Second, status.Error(codes.DeadlineExceeded, "too late") })
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{
			{5 * time.Second, ""}, // A look has begun, and is not late yet.
			{time.Second, "waiting for memoryd at host:7711"},
			{6 * time.Second, "memoryd at host:7711 did not answer within 10s: try a longer --timeout or another --addr"},
			{2 * time.Second, "memoryd at host:7711 did not answer within 10s: try a longer --timeout or another --addr"},
			{4 * time.Second, "waiting for memoryd at host:7711"},
		} {
			time.Sleep(tt.after)
			want := cut("NO ANSWER since "+began+": "+tt.want, 90)
			if tt.want == "" {
				want = "memoryd v1.2.3 at host:7711, up 3d4h, 2026-11-30T12:00:00Z"
			}
			if got := w.current()[0]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		w.set(func() { w.delay, w.err = 0, nil })
		time.Sleep(20 * time.Second)
		if got := w.page()[0]; !strings.HasPrefix(got, "memoryd v1.2.3 at host:7711, up ") {
			t.Errorf("got %q when it is back", got)
		}
		w.keys <- 'q'
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	})
}

// Nobody waits for an answer: keys work, and an order that was chosen meanwhile is asked for at once.
func TestTop_WatchSlow(t *testing.T) {
	for _, end := range []struct {
		name string
		key  byte
	}{{"q", 'q'}, {"Ctrl-C", keyInterrupt}, {"signal", 0}} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				w := watchFake(ctx, t)
				w.set(func() { w.delay = 20 * time.Second })
				time.Sleep(3 * time.Second)
				w.keys <- 's'
				w.keys <- 's'
				if page := w.page(); page[len(page)-1] != "q: quit   s: sort by calls (now: failed)" {
					t.Errorf("got %q below, want the order that was chosen", page[len(page)-1])
				}
				time.Sleep(20 * time.Second)
				w.wantAsked(memoryv1.ActivityOrder_ACTIVITY_ORDER_CALLS, memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED)
				began := time.Now()
				if end.key == 0 {
					interrupt()
				} else {
					w.keys <- end.key
				}
				if err := <-w.done; err != nil || time.Since(began) != 0 {
					t.Errorf("got %v after %s, want an end at once", err, time.Since(began))
				}
			})
		})
	}
}

func TestTop_WatchBrokenOutput(t *testing.T) {
	s := &screen{out: errorWriter{errBroken}, size: func() (int, int) { return 80, 24 }, leave: func() {}}
	run := &top{c: &cli{}, interval: time.Second}
	if err := run.run(t.Context(), s, busy()); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want that the output is broken", err)
	}
}

// TestTop_WithMemoryd looks at the service itself.
func TestTop_WithMemoryd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	memoryctl := func(args ...string) outcome {
		return run(t, strings.NewReader(""), append([]string{"--addr", listener.Addr().String()}, args...)...)
	}
	memoryctl("view", "/memories", "-n", "acme/user-42")
	memoryctl("view", "/memories/none", "-n", "acme/user-42")
	memoryctl("create", "/memories/a.md", "text", "-n", "acme/other")
	got := memoryctl("top", "--sort", "failed")
	var rows [][]string
	for line := range strings.Lines(got.Stdout) {
		if fields := strings.Fields(line); len(fields) > 0 {
			rows = append(rows, fields[:1])
		}
	}
	want := [][]string{
		{"memoryd"},
		{"calls:"},
		{"rates"},
		{"METHOD"},
		{"MemoryService/View"},
		{"MemoryService/Create"},
		{"NAMESPACE"},
		{"acme/user-42"},
		{"acme/other"},
	}
	if diff := cmp.Diff(want, rows); diff != "" || got.Status != exitOK {
		t.Errorf("got %+v (-want +got):\n%s", got, diff)
	}
}
