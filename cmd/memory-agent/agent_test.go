package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// shortItems are a checklist that takes less time: notes from two documents, and from one.
var shortItems = defaultItems[1:3]

// newAgent returns an agent that works on the documents that are built in, and what it prints.
func newAgent(t *testing.T, c *client.Client, api *claudetest.API, session string) (*agent, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return &agent{
		api: api.Client(), memory: c, namespace: client.DefaultNamespace, session: session,
		documents: openTestLibrary(t, ""), question: defaultQuestion, items: shortItems,
		model: defaultModel, maxTurns: 300, clearing: clearing{trigger: 30_000, keep: 3},
		out: &printer{w: &out},
	}, &out
}

// memoryFiles returns the files of the memory by their paths, without the hidden ones.
func memoryFiles(t *testing.T, c *client.Client) map[string]string {
	t.Helper()
	list, err := c.List(t.Context(), &memoryv1.ListRequest{Path: "/memories"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range list.GetEntries() {
		if e.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE || strings.Contains(e.GetPath(), "/.") {
			continue
		}
		var content bytes.Buffer
		if _, err := c.Get(t.Context(), &memoryv1.GetRequest{Path: e.GetPath()}, &content); err != nil {
			t.Fatal(err)
		}
		files[e.GetPath()] = content.String()
	}
	return files
}

// finished is the memory that an agent leaves which was never interrupted.
func finished(t *testing.T, items []string) map[string]string {
	t.Helper()
	s := servertest.New(t)
	a, out := newAgent(t, s.Client, claudetest.New(t, offlineModel{}), "only")
	a.items = items
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return memoryFiles(t, s.Client)
}

// notProgress leaves the progress log out of a comparison of memories.
var notProgress = cmp.FilterPath(func(p cmp.Path) bool {
	index, ok := p.Last().(cmp.MapIndex)
	return ok && index.Key().String() == agentkit.ProgressPath
}, cmp.Ignore())

// checkFinished compares a memory with the one that is left without an interruption. The progress logs differ, but each
// has every item once.
func checkFinished(t *testing.T, want, got map[string]string) {
	t.Helper()
	log := got[agentkit.ProgressPath]
	for _, it := range checklist(want[agentkit.FeaturesPath]) {
		if n := strings.Count("\n"+log, "\n"+logTitle(it.text)+"\n"); n != 1 {
			t.Errorf("the progress log has %q %d times, want once", it.text, n)
		}
	}
	if diff := cmp.Diff(want, got, notProgress); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if t.Failed() {
		t.Logf("progress log:\n%s", log)
	}
}

// One session after the other works on one item each, until the report is written.
func TestAgent(t *testing.T) {
	s := servertest.New(t)
	api := claudetest.New(t, offlineModel{})
	sessions := len(defaultItems) + 1
	var last *bytes.Buffer
	for i := range sessions {
		a, out := newAgent(t, s.Client, api, fmt.Sprintf("session-%d", i+1))
		a.items, a.limit = defaultItems, 1
		if err := a.run(t.Context()); err != nil {
			t.Fatalf("session %d: %v\n%s", i+1, err, out)
		}
		files := memoryFiles(t, s.Client)
		ticked := 0
		for _, it := range checklist(files[agentkit.FeaturesPath]) {
			if it.ticked {
				ticked++
			}
		}
		if want := min(i+1, len(defaultItems)); ticked != want {
			t.Errorf("session %d: got %d ticked items, want %d", i+1, ticked, want)
		}
		if _, ok := files[reportPath]; ok && i < len(defaultItems)-1 {
			t.Errorf("session %d: got a report before all items are done", i+1)
		}
		last = out
	}

	files := memoryFiles(t, s.Client)
	checkFinished(t, finished(t, defaultItems), files)
	for _, want := range []string{
		"dark from 02:10 to 06:45 on 3 November, as its charge relay stood open",
		"on Gull Rock was dark from 23:30 on 21 November to 08:05 on the next day, and its charge relay was found open",
		"dark from 03:00 to 07:30 on 9 January, as its charge relay stood open",
		"Three lights had nights below 4 °C in their huts: Holm Skerry 31 of them, Gull Rock 27 and North Stack 22.",
		"no night below 4 °C, since the ferry office next door heats its wall",
		"lot 47 was built without the gasket",
		"Gull Rock and Ferry Point still carry a relay of lot 47",
		"one spare relay of lot 52",
		"takes six weeks",
	} {
		if !strings.Contains(files[reportPath], want) {
			t.Errorf("the report lacks %q:\n%s", want, files[reportPath])
		}
	}
	if want := "The report with all sources is in /memories/report.md."; !strings.Contains(last.String(), want) {
		t.Errorf("got no answer, want %q:\n%s", want, last)
	}
	notes := 0
	for p := range files {
		if path.Dir(p) == strings.TrimSuffix(notesDir, "/") {
			notes++
		}
	}
	if notes != len(defaultItems) {
		t.Errorf("got %d files of notes, want %d", notes, len(defaultItems))
	}
}

// Another session after the end has nothing to do, and does nothing.
func TestAgent_AfterTheEnd(t *testing.T) {
	s := servertest.New(t)
	api := claudetest.New(t, offlineModel{})
	var before map[string]string
	for _, session := range []string{"first", "second"} {
		a, out := newAgent(t, s.Client, api, session)
		if err := a.run(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if before == nil {
			before = memoryFiles(t, s.Client)
		}
	}
	checkFinished(t, before, memoryFiles(t, s.Client))
}

// victim is an agent's connection to the memory that dies with its process.
type victim struct {
	client *client.Client
	ctx    context.Context // ends with the process
	kill   context.CancelFunc

	mu       sync.Mutex
	calls    int // until it dies; 0 is never
	answered bool
	dead     bool
}

// newVictim returns a process that is killed in its n-th call of the memory, before or after the service has executed
// it. All its later calls fail.
func newVictim(t *testing.T, s *servertest.Server, n int, executed bool) *victim {
	t.Helper()
	v := &victim{calls: n, answered: executed}
	v.ctx, v.kill = context.WithCancel(t.Context())
	t.Cleanup(v.kill)
	v.client = clientThrough(t, s, func(_ context.Context, _ any, execute func() error) error { return v.call(execute) })
	return v
}

// clientThrough returns a client of the service whose calls go through call. For a stream, req is nil.
func clientThrough(
	t *testing.T, s *servertest.Server, call func(ctx context.Context, req any, execute func() error) error,
) *client.Client {
	t.Helper()
	c, err := client.Dial("passthrough:///unused", client.WithRetryBudget(0), client.WithDialOptions(
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption,
		) error {
			return call(ctx, req, func() error { return s.Conn.Invoke(ctx, method, req, reply) })
		}),
		grpc.WithStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption,
		) (stream grpc.ClientStream, err error) {
			err = call(ctx, nil, func() error { stream, err = s.Conn.NewStream(ctx, desc, method); return err })
			return stream, err
		}),
	))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (v *victim) call(execute func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	killed := status.Error(codes.Aborted, "killed")
	if v.dead {
		return killed
	}
	if v.calls--; v.calls != 0 {
		return execute()
	}
	v.dead = true
	v.kill()
	if v.answered {
		_ = execute()
	}
	return killed
}

// die kills the process between two calls.
func (v *victim) die() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dead = true
	v.kill()
}

func (v *victim) killed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dead
}

// Two sessions are killed in their n-th call of the memory, for every n. The third carries on and finishes, with the
// memory that an agent leaves which was never interrupted.
func TestAgent_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	want := finished(t, shortItems)
	for _, executed := range []bool{false, true} {
		t.Run(fmt.Sprintf("executed=%t", executed), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				if !killedAt(t, n, executed, want) {
					if n < 20 {
						t.Fatalf("a session has only %d calls of the memory", n-1)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("killed in call %d", n)
				}
			}
		})
	}
}

// killedAt tells whether the first session was killed.
func killedAt(t *testing.T, n int, executed bool, want map[string]string) bool {
	t.Helper()
	s := servertest.New(t)
	api := claudetest.New(t, offlineModel{})
	first := false
	for _, session := range []string{"session-1", "session-2"} {
		v := newVictim(t, s, n, executed)
		a, out := newAgent(t, v.client, api, session)
		err := a.run(v.ctx)
		if v.killed() && err == nil {
			t.Fatalf("%s was killed in call %d and ended well:\n%s", session, n, out)
		}
		first = first || session == "session-1" && v.killed()
	}
	a, out := newAgent(t, s.Client, api, "session-3")
	if err := a.run(t.Context()); err != nil {
		t.Errorf("session 3: %v\n%s", err, out)
	}
	checkFinished(t, want, memoryFiles(t, s.Client))
	return first
}

// interrupting is a model that ends a context when it is asked for the n-th time.
func interrupting(n int, end func()) claudetest.Model {
	asked := 0
	return claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if asked++; asked == n {
			end()
		}
		return offlineModel{}.Respond(ctx, req)
	})
}

// Two sessions are interrupted in their n-th turn, for every n, as by Ctrl-C. They are closed, and the third finishes.
// The ids of tool calls are the same in all of them: what tells the calls apart is the session.
func TestAgent_InterruptedInEveryTurn(t *testing.T) {
	t.Parallel()
	want := finished(t, shortItems)
	for n := 1; ; n++ {
		s := servertest.New(t)
		interrupted := 0
		for _, session := range []string{"session-1", "session-2"} {
			ctx, interrupt := context.WithCancel(t.Context())
			a, out := newAgent(t, s.Client, claudetest.New(t, interrupting(n, interrupt)), session)
			err := a.run(ctx)
			if ctx.Err() != nil {
				interrupted++
				if !errors.Is(err, context.Canceled) || !errors.Is(err, errInterrupted) {
					t.Errorf("turn %d: got %v, want that it was cancelled\n%s", n, err, out)
				}
				if strings.Contains(out.String(), "✗") {
					t.Errorf("turn %d: calls that were cancelled are printed as failed:\n%s", n, out)
				}
			}
			interrupt()
		}
		log := memoryFiles(t, s.Client)[agentkit.ProgressPath]
		if got := strings.Count(log, "Ended by an error: "); got != interrupted || strings.Contains(log, "not closed") {
			t.Errorf("turn %d: got %d sessions that were ended, want %d, and all closed:\n%s", n, got, interrupted, log)
		}
		a, out := newAgent(t, s.Client, claudetest.New(t, offlineModel{}), "session-3")
		if err := a.run(t.Context()); err != nil {
			t.Errorf("session 3: %v\n%s", err, out)
		}
		checkFinished(t, want, memoryFiles(t, s.Client))
		switch {
		case t.Failed():
			t.Fatalf("interrupted in turn %d", n)
		case interrupted == 0 && n > 10:
			return
		}
	}
}

// A context that is much too small makes the agent look up again what was cleared, and it finishes nevertheless.
func TestAgent_LittleContext(t *testing.T) {
	for _, keep := range []int64{1, 3} {
		s := servertest.New(t)
		api := claudetest.New(t, offlineModel{})
		a, out := newAgent(t, s.Client, api, "only")
		a.clearing = clearing{trigger: 1, keep: keep}
		if err := a.run(t.Context()); err != nil {
			t.Fatalf("keep %d: %v\n%s", keep, err, out)
		}
		checkFinished(t, finished(t, shortItems), memoryFiles(t, s.Client))
		if requests := api.Requests(); len(requests[len(requests)-1].AppliedEdits) == 0 {
			t.Errorf("keep %d: nothing was cleared", keep)
		}
		if !strings.Contains(out.String(), " cleared, ") {
			t.Errorf("keep %d: got no word of what was cleared:\n%s", keep, out)
		}
	}
}

// A model that stops before its time: it is said why, its tool calls are not made, and the session is closed.
func TestAgent_Stops(t *testing.T) {
	secret := create("/memories/never.md", "x")
	tests := []struct {
		name  string
		turns []claudetest.Turn
		max   int
		want  string
	}{
		{"refusal", []claudetest.Turn{claudetest.Use(secret).Stop(claudetest.StopRefusal)}, 0, "the model stopped: it refused to go on"},
		{
			"max_tokens",
			[]claudetest.Turn{claudetest.Use(secret).Stop(claudetest.StopMaxTokens)},
			0,
			"the model stopped: its answer was cut off at 8192 tokens, and the tool calls in it were not made",
		},
		{
			"turns",
			[]claudetest.Turn{claudetest.Use(view("/memories")), claudetest.Use(secret)},
			2,
			"the model stopped: it has had all its turns; --max-turns sets how many",
		},
		{
			"context",
			[]claudetest.Turn{claudetest.Say("Hm.").Stop("model_context_window_exceeded")},
			0,
			"the model stopped: the conversation is too long for it; a lower --trigger keeps it shorter",
		},
		{"unknown", []claudetest.Turn{claudetest.Say("Hm.").Stop("boredom")}, 0, `the model stopped: the reason is "boredom"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := servertest.New(t)
			a, out := newAgent(t, s.Client, claudetest.New(t, claudetest.Script(test.turns...)), "stopped")
			a.maxTurns = test.max
			err := a.run(t.Context())
			if err == nil || !errors.Is(err, agentkit.ErrStopped) || err.Error() != test.want {
				t.Errorf("got %v, want %s\n%s", err, test.want, out)
			}
			files := memoryFiles(t, s.Client)
			if _, ok := files["/memories/never.md"]; ok {
				t.Error("the tool call of the last message was made")
			}
			if log := files[agentkit.ProgressPath]; !strings.HasPrefix(log, "## Session stopped\n") ||
				!strings.Contains(log, "\nEnded by an error: "+test.want+"\n") {
				t.Errorf("the session was not closed:\n%s", log)
			} else if strings.Contains(log, "Done: Hm.") {
				t.Errorf("what is not done is recorded as done:\n%s", log)
			}
		})
	}
}

// The memory calls of a turn are made in their order.
func TestAgent_Order(t *testing.T) {
	s := servertest.New(t)
	calls := []claudetest.Block{create("/memories/f", "0")}
	for i := range 9 {
		calls = append(calls, replace("/memories/f", fmt.Sprint(i), fmt.Sprint(i+1)))
	}
	a, out := newAgent(t, s.Client, claudetest.New(t, claudetest.Script(claudetest.Use(calls...), claudetest.Say("Done."))), "x")
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := memoryFiles(t, s.Client)["/memories/f"], "9"; got != want {
		t.Errorf("got %q, want %q\n%s", got, want, out)
	}
}

// The session is interrupted in the middle of a call: that is not the fault of the tool.
func TestAgent_InterruptedInACall(t *testing.T) {
	s := servertest.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	hang := clientThrough(t, s, func(ctx context.Context, req any, execute func() error) error {
		if strings.Contains(fmt.Sprint(req), "/memories/hang") {
			interrupt()
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return execute()
	})
	script := claudetest.Script(claudetest.Use(create("/memories/f", "x"), view("/memories/hang")))
	a, out := newAgent(t, hang, claudetest.New(t, script), "x")
	if err := a.run(ctx); !errors.Is(err, errInterrupted) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
	if text := out.String(); strings.Contains(text, "✗") || !strings.Contains(text, "memory create /memories/f → ") {
		t.Errorf("got %s, want the first call only", text)
	}
}

// The end of what is the same in every request is cached, and so is the conversation. Results are cleared where that
// gains enough.
func TestAgent_Requests(t *testing.T) {
	s := servertest.New(t)
	for _, test := range []struct {
		clearing clearing
		want     string // clear_at_least
	}{
		{clearing{}, ""},
		{clearing{trigger: 30_000, keep: 3}, ""},
		{clearing{trigger: 30_000, keep: 3, atLeast: 10_000}, `"clear_at_least":{"value":10000,"type":"input_tokens"}`},
	} {
		api := claudetest.New(t, claudetest.Script(claudetest.Say("Done.")))
		a, out := newAgent(t, s.Client, api, "x")
		a.clearing = test.clearing
		if err := a.run(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		body := string(api.Requests()[0].Body)
		var parsed struct {
			CacheControl json.RawMessage `json:"cache_control"`
			System       []struct {
				CacheControl json.RawMessage `json:"cache_control"`
			} `json:"system"`
		}
		if err := json.Unmarshal([]byte(body), &parsed); err != nil {
			t.Fatal(err)
		}
		if n := len(parsed.System); parsed.CacheControl == nil || parsed.System[n-1].CacheControl == nil || strings.Count(body, "cache_control") != 2 {
			t.Errorf("got %s, want a breakpoint after the system prompt and one for the conversation", body)
		}
		if got := strings.Contains(body, "context_management"); got != (test.clearing.trigger > 0) {
			t.Errorf("%+v: got context management: %t in %s", test.clearing, got, body)
		}
		if got := strings.Contains(body, "clear_at_least"); got != (test.want != "") || !strings.Contains(body, test.want) {
			t.Errorf("%+v: got %s, want %s", test.clearing, body, test.want)
		}
	}
}

// A turn that is paused goes on.
func TestAgent_PauseTurn(t *testing.T) {
	s := servertest.New(t)
	script := claudetest.Script(claudetest.Say("Wait.").Stop(claudetest.StopPauseTurn), claudetest.Say("Here I am."))
	a, out := newAgent(t, s.Client, claudetest.New(t, script), "paused")
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if log := memoryFiles(t, s.Client)[agentkit.ProgressPath]; !strings.HasPrefix(log, "## Session paused\n\nDone: Here I am.\n") {
		t.Errorf("got %q, want what the model said last", log)
	}
}

// The SDK waits out an API that is overloaded or limits the rate.
func TestAgent_APIFails(t *testing.T) {
	soon := claudetest.Overloaded()
	soon.RetryAfter = time.Millisecond
	s := servertest.New(t)
	var api *claudetest.API
	api = claudetest.New(t, interrupting(4, func() {
		api.FailNext(2, soon)
		api.FailNext(2, claudetest.RateLimited(time.Millisecond))
	}))
	a, out := newAgent(t, s.Client, api, "only")
	a.api = anthropic.NewClient(append(api.ClientOptions(), option.WithMaxRetries(apiRetries))...)
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFinished(t, finished(t, shortItems), memoryFiles(t, s.Client))
	failed := 0
	for _, r := range api.Requests() {
		if r.Status != 200 {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("got %d requests that failed, want 4", failed)
	}
}

// An API that is down for longer ends the session, which is closed, and the next one carries on.
func TestAgent_APIIsDown(t *testing.T) {
	s := servertest.New(t)
	var api *claudetest.API
	api = claudetest.New(t, interrupting(9, func() { api.FailNext(1, claudetest.Overloaded()) }))
	a, out := newAgent(t, s.Client, api, "first") // which makes one attempt
	var apiErr *anthropic.Error
	if err := a.run(t.Context()); !errors.As(err, &apiErr) || apiErr.StatusCode != 529 {
		t.Fatalf("got %v, want the error of the API\n%s", err, out)
	}
	if log := memoryFiles(t, s.Client)[agentkit.ProgressPath]; !strings.HasPrefix(log, "## Session first\n") {
		t.Errorf("the session was not closed:\n%s", log)
	}
	a, out = newAgent(t, s.Client, api, "second")
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFinished(t, finished(t, shortItems), memoryFiles(t, s.Client))
}

// startMemoryd serves a store on a socket until stop or the end of the test.
func startMemoryd(t *testing.T, store kv.Store, socket string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := server.New(ctx, server.Config{Listen: []string{"unix:" + socket}, Store: store, ShutdownTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run memoryd: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// newStore returns a store in memory, which can be served again.
func newStore(t *testing.T) kv.Store {
	t.Helper()
	store := memkv.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// memoryd goes away in the middle of the run and comes back, again and again: the agent does not even notice.
func TestAgent_MemoryRestarts(t *testing.T) {
	store, socket := newStore(t), filepath.Join(t.TempDir(), "s")
	stop := startMemoryd(t, store, socket)
	c, err := client.Dial("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	turns := 0
	api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if turns++; turns%3 == 0 {
			stop()
			stop = startMemoryd(t, store, socket)
		}
		return offlineModel{}.Respond(ctx, req)
	}))
	a, out := newAgent(t, c, api, "only")
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFinished(t, finished(t, shortItems), memoryFiles(t, c))
	if strings.Contains(out.String(), "✗") {
		t.Errorf("a tool call failed:\n%s", out)
	}
}

// A memory that stays away: the model is told, and gives up.
func TestAgent_MemoryIsAway(t *testing.T) {
	s := servertest.New(t)
	var v *victim
	api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		v.mu.Lock()
		v.dead = true // but the process lives
		v.mu.Unlock()
		return offlineModel{}.Respond(ctx, req)
	}))
	v = newVictim(t, s, 0, false)
	a, out := newAgent(t, v.client, api, "only")
	if err := a.run(t.Context()); err == nil {
		t.Error("got no error, want that the session cannot be closed")
	}
	want := "My tools keep failing, so I stop here."
	if !strings.Contains(out.String(), want) || strings.Count(out.String(), "✗") != maxErrors {
		t.Errorf("got %s, want %d calls that failed and %q", out, maxErrors, want)
	}
}

// A session that begins again under its name, as when its process was restarted.
func TestAgent_SameSession(t *testing.T) {
	s := servertest.New(t)
	v := newVictim(t, s, 0, false)
	noted := func(call claudetest.ToolCall) bool {
		return call.Answered && strings.Contains(string(call.Input), notesPath(shortItems[0]))
	}
	killing := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if slices.ContainsFunc(req.Calls(), noted) {
			v.die()
		}
		return offlineModel{}.Respond(ctx, req)
	}), claudetest.WithIDPrefix("a"))
	a, _ := newAgent(t, v.client, killing, "same")
	if err := a.run(v.ctx); err == nil || !v.killed() {
		t.Fatal("the session was not killed")
	}
	var tasks []string
	api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		tasks = append(tasks, req.Messages[0].Content[0].Text)
		return offlineModel{}.Respond(ctx, req)
	}), claudetest.WithIDPrefix("b"))
	a, out := newAgent(t, s.Client, api, "same")
	if err := a.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFinished(t, finished(t, shortItems), memoryFiles(t, s.Client))
	want := "This session began before and was cut off. 1 memory file changed since.\n"
	if !slices.ContainsFunc(tasks, func(s string) bool { return strings.Contains(s, want) }) {
		t.Errorf("got task %q, want %q in it", tasks[0], want)
	}
}
