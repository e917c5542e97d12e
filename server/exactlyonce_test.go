package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// write is a way to change a namespace, under a request id.
type write struct {
	name string
	do   func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error)
}

// writes are all ways to change a namespace, but for DeleteNamespace, which is not recorded. Each would do something
// else, or fail, if it were done twice. They run in a namespace that has the file /memories/a.
var writes = []write{
	{"Create", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Create(ctx, &memoryv1.CreateRequest{
			Namespace: ns, RequestId: id, Path: "/memories/d/new", FileText: strings.Repeat("text\n", 60_000),
		})
	}},
	{"StrReplace", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.StrReplace(ctx, &memoryv1.StrReplaceRequest{
			Namespace: ns, RequestId: id, Path: "/memories/a", OldStr: "one", NewStr: "one, one",
		})
	}},
	{"Insert", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Insert(ctx, &memoryv1.InsertRequest{
			Namespace: ns, RequestId: id, Path: "/memories/a", InsertLine: 1, InsertText: "between",
		})
	}},
	{"Delete", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Delete(ctx, &memoryv1.DeleteRequest{Namespace: ns, RequestId: id, Path: "/memories/a"})
	}},
	{"Rename", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Rename(ctx, &memoryv1.RenameRequest{
			Namespace: ns, RequestId: id, OldPath: "/memories/a", NewPath: "/memories/d/b",
		})
	}},
	{"Execute", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: ns, RequestId: id, Input: insertInput})
	}},
	{"Apply", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.Apply(ctx, &memoryv1.ApplyRequest{Namespace: ns, RequestId: id, Commands: []*memoryv1.ApplyCommand{
			{Input: insertInput}, {Input: `{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`},
		}})
	}},
	{"Put", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		// The content is not one that a reader could give again.
		r := io.MultiReader(strings.NewReader(strings.Repeat("\x00\xff", 100_000)))
		return c.Put(ctx, &memoryv1.PutHeader{Namespace: ns, RequestId: id, Path: "/memories/a"}, r)
	}},
	{"UpdateNamespace", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		return c.UpdateNamespace(ctx, &memoryv1.UpdateNamespaceRequest{
			Namespace: ns, RequestId: id, Settings: &memoryv1.NamespaceSettings{ViewMaxChars: new(int64(7))},
		})
	}},
	{"HandleToolUse", func(ctx context.Context, c *client.Client, ns, id string) (proto.Message, error) {
		// A handler of its own each time, as after a crash of the agent; and one that guards, since what it remembers
		// is not a part of the request that its id stands for.
		h := c.Handler(ns, client.WithSession("run"), client.GuardStaleEdits())
		block, err := json.Marshal(map[string]any{"type": "tool_use", "id": id, "input": json.RawMessage(insertInput)})
		if err != nil {
			return nil, err
		}
		got, err := h.HandleToolUse(ctx, block)
		text := strings.ReplaceAll(string(got), id, "ID")
		return &memoryv1.Content{Block: &memoryv1.Content_Text{Text: text}}, err
	}},
}

const insertInput = `{"command":"insert","path":"/memories/a","insert_line":1,"insert_text":"between"}`

// A connection that is cut or a server that is restarted, before a change or between its commit and its answer, leaves
// one effect and the answer that it would have had.
func TestExactlyOnce(t *testing.T) {
	s := startRestartable(t)
	direct := dialClient(t, "unix:"+s.socket)
	faults := []struct {
		name string
		arm  func(ns string)
	}{
		{"cut before the commit", func(ns string) { s.before(ns, s.wire.cut) }},
		{"cut after the commit", func(ns string) { s.after(ns, s.wire.cut) }},
		{"restarted before the commit", func(ns string) { s.before(ns, s.cutAndRestart) }},
		{"restarted after the commit", func(ns string) { s.after(ns, s.cutAndRestart) }},
	}
	for i, w := range writes {
		control := fmt.Sprintf("control-%d", i)
		prepareNamespace(t, direct, control)
		want, err := w.do(t.Context(), direct, control, "id")
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		wantState := state(t, direct, control)

		for j, fault := range faults {
			t.Run(w.name+"/"+fault.name, func(t *testing.T) {
				ns := fmt.Sprintf("test-%d-%d", i, j)
				prepareNamespace(t, direct, ns)
				c := dialClient(t, s.wire.target)
				if _, err := c.GetNamespace(t.Context(), &memoryv1.GetNamespaceRequest{}); err != nil { // connects
					t.Fatal(err)
				}
				fault.arm(ns)
				got, err := w.do(t.Context(), c, ns, "id")
				s.restarts.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if n := s.faults(); n != 1 {
					t.Fatalf("the fault happened %d times, want once", n)
				}
				if diff := cmp.Diff(want, got, acrossNamespaces...); diff != "" {
					t.Errorf("answer (-without the fault +with it):\n%s", diff)
				}
				if diff := cmp.Diff(wantState, state(t, direct, ns), acrossNamespaces...); diff != "" {
					t.Errorf("namespace (-without the fault +with it):\n%s", diff)
				}

				// Another process asks for the same once more.
				again, err := w.do(t.Context(), dialClient(t, s.wire.target), ns, "id")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(got, again, protocmp.Transform()); diff != "" {
					t.Errorf("answer to the same request (-before +again):\n%s", diff)
				}
				if diff := cmp.Diff(wantState, state(t, direct, ns), acrossNamespaces...); diff != "" {
					t.Errorf("namespace after the same request (-before +after):\n%s", diff)
				}
			})
		}
	}
	for j, fault := range faults {
		t.Run("DeleteNamespace/"+fault.name, func(t *testing.T) {
			ns := fmt.Sprintf("deleted-%d", j)
			prepareNamespace(t, direct, ns)
			c := dialClient(t, s.wire.target)
			fault.arm(ns)
			_, err := c.DeleteNamespace(t.Context(), &memoryv1.DeleteNamespaceRequest{Namespace: ns})
			s.restarts.Wait()
			if err != nil {
				t.Error(err)
			}
			resp, err := direct.GetNamespace(t.Context(), &memoryv1.GetNamespaceRequest{Namespace: ns})
			if got := resp.GetNamespace().GetRevision(); err != nil || got != 0 {
				t.Errorf("got revision %d, %v, want a namespace never written", got, err)
			}
		})
	}
}

// What a handler remembers of a file keeps the model from changing what it has not seen, and a note is known as one.
func TestGuardStaleEdits(t *testing.T) {
	c := servertest.New(t).Client
	guarded := c.Handler("n", client.GuardStaleEdits())
	other := c.Handler("n")
	const stale = "Error: /memories/a was changed by someone else since you viewed it. View it again before you change it."
	for i, step := range []struct {
		handler     *client.Handler
		input, want string // want: how the result begins
	}{
		{guarded, `{"command":"create","path":"/memories/a","file_text":"one\ntwo"}`, "File created"},
		{guarded, insertInput, "The file /memories/a has been edited."},
		{other, insertInput, "The file /memories/a has been edited."},
		{guarded, insertInput, stale},
		{guarded, `{"command":"delete","path":"/memories/a"}`, stale},
		{guarded, `{"command":"str_replace","path":"/memories/a","old_str":"two","new_str":"2"}`, "The memory file has been"},
		{guarded, insertInput, stale}, // it was told of the newer text, and has not seen it
		{guarded, `{"command":"view","path":"/memories//a"}`, "Here's the content of"},
		{guarded, `{"command":"rename","old_path":"/memories/a","new_path":"/memories/d/a"}`, "Successfully renamed"},
		{guarded, `{"command":"rename","old_path":"/memories/d","new_path":"/memories/e"}`, "Successfully renamed"},
		{guarded, `{"command":"delete","path":"/memories/e/a"}`, "Successfully deleted"},
		{other, `{"command":"create","path":"/memories/e/a","file_text":""}`, "File created"},
		{guarded, `{"command":"delete","path":"/memories/e"}`, "Successfully deleted"},
	} {
		got := step.handler.Handle(t.Context(), json.RawMessage(step.input)).Text()
		if !strings.HasPrefix(got, step.want) {
			t.Errorf("step %d, %s: got %q, want %q", i, step.input, got, step.want)
		}
	}
}

// acrossNamespaces leaves out what differs from one namespace to another.
var acrossNamespaces = []cmp.Option{
	protocmp.Transform(),
	protocmp.IgnoreFields(&memoryv1.Entry{}, "created_time", "modified_time"),
	protocmp.IgnoreFields(&memoryv1.Namespace{}, "name", "created_time"),
}

func prepareNamespace(t *testing.T, c *client.Client, ns string) {
	t.Helper()
	create := &memoryv1.CreateRequest{Namespace: ns, Path: "/memories/a", FileText: "one\ntwo\n"}
	if _, err := c.Create(t.Context(), create); err != nil {
		t.Fatal(err)
	}
}

// state is all that can be seen of a namespace.
func state(t *testing.T, c *client.Client, ns string) []proto.Message {
	t.Helper()
	namespace, err := c.GetNamespace(t.Context(), &memoryv1.GetNamespaceRequest{Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context(), &memoryv1.ListRequest{Namespace: ns, Path: "/memories"})
	if err != nil {
		t.Fatal(err)
	}
	return []proto.Message{namespace, list}
}

func dialClient(t *testing.T, target string) *client.Client {
	t.Helper()
	c, err := client.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// restartable is a memoryd on a bbolt store, behind a wire that can be cut, whose commits can be disturbed.
type restartable struct {
	t      *testing.T
	dir    string
	socket string
	wire   *wire

	stop     func() // the server that runs
	restarts sync.WaitGroup

	mu        sync.Mutex
	scope     string // the namespace whose next update is disturbed
	preceding func() // runs before that update is made, or
	following func() // after it was committed
	happened  int
}

func startRestartable(t *testing.T) *restartable {
	t.Helper()
	s := &restartable{t: t, dir: filepath.Join(t.TempDir(), "data"), socket: filepath.Join(t.TempDir(), "s")}
	s.start()
	s.wire = startWire(t, filepath.Join(t.TempDir(), "w"), s.socket)
	t.Cleanup(func() {
		s.restarts.Wait()
		s.stop()
	})
	return s
}

func (s *restartable) start() {
	store, err := boltkv.Open(context.Background(), boltkv.Options{Dir: s.dir})
	if err != nil {
		s.t.Errorf("open store: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	running, err := server.New(ctx, server.Config{
		Listen: []string{"unix:" + s.socket}, Store: &disturbedStore{Store: store, by: s}, ShutdownTimeout: 5 * time.Second,
	})
	if err != nil {
		cancel()
		s.t.Errorf("start server: %v", err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- running.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("run server: %v", err)
		}
		if err := store.Check(context.Background()); err != nil {
			s.t.Errorf("check store: %v", err)
		}
		if err := store.Close(); err != nil {
			s.t.Errorf("close store: %v", err)
		}
	}
}

// cutAndRestart does not wait for the restart, since the server waits for the call in which this happens.
func (s *restartable) cutAndRestart() {
	s.wire.cut()
	s.restarts.Go(func() {
		s.stop()
		s.start()
	})
}

func (s *restartable) before(ns string, fn func()) { s.arm(ns, fn, func() {}) }
func (s *restartable) after(ns string, fn func())  { s.arm(ns, func() {}, fn) }

func (s *restartable) arm(ns string, preceding, following func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scope, s.preceding, s.following, s.happened = ns, preceding, following, 0
}

// disturbance returns what is to happen around an update.
func (s *restartable) disturbance(scope string) (preceding, following func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if scope != s.scope {
		return func() {}, func() {}
	}
	s.scope = ""
	s.happened++
	return s.preceding, s.following
}

func (s *restartable) faults() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.happened
}

type disturbedStore struct {
	kv.Store
	by *restartable
}

// Update implements kv.Store. The update goes on though the caller is gone, as it does once it is in a group.
func (d *disturbedStore) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	preceding, following := d.by.disturbance(scope)
	preceding()
	err := d.Store.Update(context.WithoutCancel(ctx), scope, fn)
	if err == nil {
		following()
	}
	return err
}

// wire carries bytes between clients and a server on a unix socket, until it is cut.
type wire struct {
	target string // the clients'
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
}

func startWire(t *testing.T, path, socket string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{target: "unix:" + path, conns: make(map[net.Conn]struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
			if err != nil { // the server is not there: nor is the wire
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			w.conns[near], w.conns[far] = struct{}{}, struct{}{}
			w.mu.Unlock()
			for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
				running.Go(func() {
					_, _ = io.Copy(ends[0], ends[1]) // until one end is closed
					_ = near.Close()
					_ = far.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		running.Wait()
	})
	return w
}

// cut cuts all connections. New ones can be made.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		_ = conn.Close()
	}
	clear(w.conns)
}
