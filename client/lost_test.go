package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// effects is what a service does that makes a change at most once under one request id. Several servers can share it,
// as those before and after a restart do.
type effects struct {
	mu      sync.Mutex
	made    map[string]int // how often, by request id
	deleted bool           // the namespace
	tries   int
	after   func() // runs after every change that is made, before the answer
}

func newEffects() *effects { return &effects{made: make(map[string]int), after: func() {}} }

func (e *effects) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, made := range e.made {
		n += made
	}
	return n
}

func (e *effects) try(id string) {
	e.mu.Lock()
	e.tries++
	first := e.made[id] == 0
	if first {
		e.made[id]++
	}
	e.mu.Unlock()
	if first {
		e.after()
	}
}

func (e *effects) fake() *fake {
	f := &fake{}
	f.unary = func(_ context.Context, method string, req proto.Message) (proto.Message, error) {
		switch r := req.(type) {
		case *memoryv1.DeleteNamespaceRequest: // is not recorded
			e.mu.Lock()
			deleted := e.deleted
			e.deleted = true
			e.mu.Unlock()
			if deleted {
				return nil, serviceError(codes.NotFound, "NAMESPACE_NOT_FOUND", true)
			}
			e.try(r.GetRequestId())
			return &memoryv1.DeleteNamespaceResponse{}, nil
		case *memoryv1.ExecuteRequest:
			if r.GetInput() != viewInput {
				e.try(r.GetRequestId())
			}
			return textResponse("done"), nil
		}
		m := req.ProtoReflect()
		if fd := m.Descriptor().Fields().ByName(protoreflect.Name("request_id")); fd != nil {
			e.try(m.Get(fd).String())
		}
		return emptyResponse(method), nil
	}
	f.put = func(stream putStream) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		for {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
		}
		e.try(first.GetHeader().GetRequestId())
		return stream.SendAndClose(&memoryv1.PutResponse{Revision: 1})
	}
	return f
}

// writes are all ways to change something.
var writes = map[string]func(context.Context, *Client) error{
	"Create": func(ctx context.Context, c *Client) error {
		_, err := c.Create(ctx, &memoryv1.CreateRequest{})
		return err
	},
	"StrReplace": func(ctx context.Context, c *Client) error {
		_, err := c.StrReplace(ctx, &memoryv1.StrReplaceRequest{})
		return err
	},
	"Insert": func(ctx context.Context, c *Client) error {
		_, err := c.Insert(ctx, &memoryv1.InsertRequest{})
		return err
	},
	"Delete": func(ctx context.Context, c *Client) error {
		_, err := c.Delete(ctx, &memoryv1.DeleteRequest{})
		return err
	},
	"Rename": func(ctx context.Context, c *Client) error {
		_, err := c.Rename(ctx, &memoryv1.RenameRequest{})
		return err
	},
	"Execute": func(ctx context.Context, c *Client) error {
		_, err := c.Execute(ctx, &memoryv1.ExecuteRequest{Input: createInput})
		return err
	},
	"Apply": func(ctx context.Context, c *Client) error {
		_, err := c.Apply(ctx, &memoryv1.ApplyRequest{})
		return err
	},
	"UpdateNamespace": func(ctx context.Context, c *Client) error {
		_, err := c.UpdateNamespace(ctx, &memoryv1.UpdateNamespaceRequest{})
		return err
	},
	"DeleteNamespace": func(ctx context.Context, c *Client) error {
		_, err := c.DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{})
		return err
	},
	"Put": func(ctx context.Context, c *Client) error {
		// A reader that cannot seek, of more than one chunk.
		r := io.LimitReader(strings.NewReader(strings.Repeat("x", 3*chunkBytes)), 2*chunkBytes+1)
		resp, err := c.Put(ctx, &memoryv1.PutHeader{}, r)
		if err == nil && resp.GetRevision() != 1 {
			return errors.New("no response")
		}
		return err
	},
	"Handle": func(ctx context.Context, c *Client) error {
		return asError(c.Handler("").Handle(ctx, json.RawMessage(createInput)))
	},
	"HandleToolUse": func(ctx context.Context, c *Client) error {
		got, err := c.Handler("").HandleToolUse(ctx, json.RawMessage(`{"type":"tool_use","id":"a","input":`+createInput+`}`))
		if err == nil && !strings.Contains(string(got), `"content":"done"`) {
			return errors.New(string(got))
		}
		return err
	},
}

func asError(r Result) error {
	if r.IsError {
		return errors.New(r.Text())
	}
	return nil
}

// service is a service behind a proxy, which can be restarted.
type service struct {
	*proxy
	effects *effects
	server  *grpc.Server
}

func startService(t *testing.T) *service {
	t.Helper()
	s := &service{effects: newEffects()}
	l := listen(t, "tcp", "127.0.0.1:0")
	s.server = serve(t, l, s.effects.fake())
	s.proxy = startProxy(t, l.Addr())
	return s
}

// restart kills the server and starts another on the same address.
func (s *service) restart(t *testing.T) {
	t.Helper()
	s.server.Stop()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), s.network, s.address)
	if err != nil {
		t.Error(err)
		return
	}
	s.server = serve(t, l, s.effects.fake())
}

// Whatever becomes of the connection, and when: a change is made once, and the caller gets its answer.
func TestLostAnswers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(t *testing.T, s *service)
	}{
		{"cut before the request is forwarded", func(_ *testing.T, s *service) {
			s.set(func() { s.requests = cut })
		}},
		{"cut after the change and before the answer", func(_ *testing.T, s *service) {
			s.effects.after = func() {
				s.set(func() { s.answers = held })
				s.cutAll()
				s.set(func() { s.answers = forwarded })
			}
		}},
		{"restarted after the change and before the answer", func(t *testing.T, s *service) {
			restarted := make(chan struct{})
			var once sync.Once
			s.effects.after = func() {
				once.Do(func() {
					s.set(func() { s.answers = held })
					s.cutAll()
					go func() { // the server waits for this call
						defer close(restarted)
						s.restart(t)
						s.set(func() { s.answers = forwarded })
					}()
				})
			}
			t.Cleanup(func() { <-restarted })
		}},
		{"delayed", func(_ *testing.T, s *service) {
			s.effects.after = func() {
				s.set(func() { s.answers = held })
				time.AfterFunc(50*time.Millisecond, func() { s.set(func() { s.answers = forwarded }) })
			}
		}},
	} {
		for name, write := range writes {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				s := startService(t)
				c := dial(t, s.target)
				c.timing = timing{now: time.Now, sleep: sleep, random: c.timing.random}
				if _, err := c.View(t.Context(), &memoryv1.ViewRequest{}); err != nil { // the connection is there
					t.Fatal(err)
				}
				tt.fault(t, s)
				if err := write(t.Context(), c); err != nil {
					t.Errorf("got %v, want the answer", err)
				}
				if got := s.effects.count(); got != 1 {
					t.Errorf("got %d effects, want 1", got)
				}
				if lost := tt.name != "delayed"; lost && name != "DeleteNamespace" && s.effects.tries > 2 {
					t.Errorf("the service was asked %d times, want at most twice", s.effects.tries)
				}
			})
		}
	}
}

// A service that dies with the answer and does not come back leaves a doubt; one that died before does not.
func TestLostAnswers_ServiceGone(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			s := startService(t)
			c := dial(t, s.target)
			stopped := make(chan struct{})
			s.effects.after = func() {
				s.set(func() { s.answers = held })
				s.cutAll()
				go func() { // the server waits for this call
					defer close(stopped)
					s.server.Stop()
					s.cutAll()
				}()
			}
			err := write(t.Context(), c)
			<-stopped
			if !MayHaveBeenMade(err) && (err == nil || !strings.Contains(err.Error(), "may or may not have been made")) {
				t.Errorf("got %v, want a doubt", err)
			}
			err = write(t.Context(), c)
			if MayHaveBeenMade(err) || err == nil || strings.Contains(err.Error(), "may or may not have been made") {
				t.Errorf("then got %v, want an error without a doubt", err)
			}
			if got := s.effects.count(); got != 1 {
				t.Errorf("got %d effects, want 1", got)
			}
		})
	}
}
