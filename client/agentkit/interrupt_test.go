package agentkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-7f2870e1/memoryd/client"
)

// death is what becomes of the call in which a process ends.
type death int

const (
	before death = iota // the service does not get it
	after               // the service executes it, and the answer is lost
	during              // it never returns
	lost                // the service does not get it, though it was sent
)

func (d death) String() string { return [...]string{"before", "after", "during", "lost"}[d] }

var errKilled = status.Error(codes.Aborted, "the process was killed")

// listenUnanswered returns the dialer of a server whose only answer is errKilled. What is sent to it has been sent.
func listenUnanswered(t *testing.T) grpc.DialOption {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil { // an answer before that could keep it from being sent
			return err
		}
		return errKilled
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
}

// process is a process with a client, which ends in its n-th call. All its later calls fail.
type process struct {
	client *client.Client
	death  death

	mu   sync.Mutex
	left int // calls until the end
	dead bool

	hangs   chan struct{} // closed when a call hangs
	release chan struct{} // closed to end it

	hold      bool              // every call until its context ends
	meanwhile map[string]func() // by the name of a method: runs before the next call of it
}

// startProcess starts a process that is killed in its n-th call, never if n is 0.
func (m memory) startProcess(t *testing.T, n int, d death) *process {
	t.Helper()
	p := &process{left: n, death: d, hangs: make(chan struct{}), release: make(chan struct{})}
	// The calls are made on the connection of the server. That of the client is for those whose answer is lost.
	c, err := client.Dial("passthrough:///unanswered", client.WithRetryBudget(0), client.WithDialOptions(
		listenUnanswered(t),
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			p.happen(ctx, method)
			err := p.call(func() error { return m.Conn.Invoke(ctx, method, req, reply) })
			if (p.death == after || p.death == lost) && errors.Is(err, errKilled) {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			return err
		}),
		grpc.WithStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			p.happen(ctx, method)
			open := func() (grpc.ClientStream, error) { return m.Conn.NewStream(ctx, desc, method) }
			if p.death == after {
				stream, err := open()
				return &dyingStream{stream, p, false}, err
			}
			var stream grpc.ClientStream
			err := p.call(func() (err error) {
				stream, err = open()
				return err
			})
			return stream, err
		}),
	))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p.client = c
	return p
}

// happen lets happen what is to happen before a call.
func (p *process) happen(ctx context.Context, method string) {
	if p.hold {
		<-ctx.Done()
	}
	name := path.Base(method)
	if happens := p.meanwhile[name]; happens != nil {
		delete(p.meanwhile, name)
		happens()
	}
}

// call makes a call unless the process has ended.
func (p *process) call(invoke func() error) error {
	if p.killed() {
		return errKilled
	}
	if !p.ends() {
		return invoke()
	}
	switch p.death {
	case before, lost:
	case after:
		_ = invoke()
	case during:
		close(p.hangs)
		<-p.release
	}
	return errKilled
}

// ends counts a call, and tells whether the process ends in it.
func (p *process) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	p.dead = p.left == 0
	return p.dead
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// dyingStream is a stream of a process that may end once the service has executed the call.
type dyingStream struct {
	grpc.ClientStream
	process  *process
	answered bool
}

// RecvMsg implements grpc.ClientStream.
func (s *dyingStream) RecvMsg(m any) error {
	if s.answered {
		return s.ClientStream.RecvMsg(m)
	}
	s.answered = true
	return s.process.call(func() error { return s.ClientStream.RecvMsg(m) })
}

// run is the whole of a process: it goes on with the session, or begins it, and closes it.
func (p *process) run(ctx context.Context, session, done string) error {
	project := New(p.client, namespace)
	if _, err := project.Initialize(ctx, shop); err != nil {
		return err
	}
	s, err := project.Resume(ctx, session)
	if err != nil {
		return err
	}
	input := fmt.Sprintf(`{"command":"create","path":"/memories/%s.md","file_text":"%s"}`, done, done)
	p.client.Handler(namespace).Handle(ctx, []byte(input))
	return s.Close(ctx, Outcome{Done: done})
}

// A process may be killed in any of its calls. Another one that carries on finds everything in order: nothing lost,
// nothing double, nothing left.
func TestInterruption(t *testing.T) {
	for _, next := range []string{"one", "two"} {
		for _, d := range []death{before, after, during} {
			t.Run(fmt.Sprintf("killed %v a call, then session %s", d, next), func(t *testing.T) {
				calls := 0
				for interrupted := true; interrupted; {
					calls++
					interrupted = interruptAt(t, calls, d, next)
				}
				if calls < 10 {
					t.Errorf("got through with %d calls, which cannot be all", calls)
				}
			})
		}
	}
}

// interruptAt kills a process of session one in its n-th call and lets another carry on. It returns false if the
// process does not make as many calls.
func interruptAt(t *testing.T, n int, d death, next string) bool {
	m := newMemory(t)
	first := m.startProcess(t, n, d)
	ended := make(chan error, 1)
	go func() { ended <- first.run(t.Context(), "one", "first") }()
	select {
	case err := <-ended:
		if first.killed() == (err == nil) {
			t.Fatalf("call %d: killed %t, got error %v", n, first.killed(), err)
		}
	case <-first.hangs:
		defer func() {
			close(first.release)
			<-ended
		}()
	}
	begun := slices.Contains(m.open(t), "one")
	wrote := m.read(t, "/memories/first.md") != ""
	closed := strings.Contains(m.read(t, ProgressPath), "Done: first\n")
	if begun && closed {
		t.Errorf("call %d: the session is closed and on record", n)
	}

	if err := m.startProcess(t, 0, before).run(t.Context(), next, "second"); err != nil {
		t.Fatalf("call %d: carry on: %v", n, err)
	}
	log := m.read(t, ProgressPath)
	counts := map[string]int{
		"Done: second\n":                1,
		"## Project begun\n":            1,
		"Done: first\n":                 0,
		"## Session one: not closed\n":  0,
		"since it began: /memories/fir": 0,
	}
	if closed {
		counts["Done: first\n"] = 1
	}
	if begun && next != "one" {
		counts["## Session one: not closed\n"] = 1
		if wrote {
			counts["since it began: /memories/fir"] = 1
		}
	}
	for text, want := range counts {
		if got := strings.Count(log, text); got != want {
			t.Errorf("call %d: %q is %d times in the log, want %d:\n%s", n, text, got, want, log)
		}
	}
	if open := m.open(t); open != nil {
		t.Errorf("call %d: got open sessions %q, want none", n, open)
	}
	return first.killed()
}

// A Close whose answer was lost is not made twice, not even with another outcome.
func TestClose_AnswerLost(t *testing.T) {
	for _, again := range []string{"this", "that"} {
		for _, noted := range []bool{false, true} {
			t.Run(fmt.Sprintf("then %s, noted %t", again, noted), func(t *testing.T) {
				m := newMemory(t)
				p := m.startProcess(t, 0, after)
				s, err := New(p.client, namespace).Resume(t.Context(), "one")
				if err != nil {
					t.Fatal(err)
				}
				if noted {
					m.resume(t, "two")
				}
				p.meanwhile = map[string]func(){"Apply": func() { p.left = 1 }}
				if err := s.Close(t.Context(), Outcome{Done: "this"}); status.Code(err) != codes.Aborted {
					t.Fatalf("got %v, want that the answer was lost", err)
				}
				p.dead = false
				m.close(t, s, Outcome{Done: again})
				log := m.read(t, ProgressPath)
				if strings.Count(log, "Done: ") != 1 || !strings.Contains(log, "Done: this\n") {
					t.Errorf("got log\n%s\nwant the first outcome once", log)
				}
				p.dead = true
				m.close(t, s, Outcome{Done: again}) // needs no call
			})
		}
	}
}

// A Close that may have been made and was not is made when it is repeated, whatever another process has closed with.
func TestClose_AnswerLostNotMade(t *testing.T) {
	m := newMemory(t)
	p := m.startProcess(t, 0, lost)
	s, err := New(p.client, namespace).Resume(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	other := m.resume(t, "one")
	p.meanwhile = map[string]func(){"Apply": func() { p.left = 1 }}
	if err := s.Close(t.Context(), Outcome{Done: "this"}); !client.MayHaveBeenMade(err) {
		t.Fatalf("got %v, want that it may have been made", err)
	}
	m.close(t, other, Outcome{Done: "that"})
	p.dead = false
	m.close(t, s, Outcome{Done: "this"})
	m.checkFile(t, ProgressPath, entryOne+"\n## Session one\n\nDone: that\n")
}

// Close does not wait longer than it may.
func TestClose_Timeout(t *testing.T) {
	m := newMemory(t)
	p := m.startProcess(t, 0, before)
	s, err := New(p.client, namespace, WithCloseTimeout(time.Millisecond)).Resume(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	p.hold = true
	if err := s.Close(t.Context(), Outcome{Done: "this"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want that the time has passed", err)
	}
	p.hold = false
	s.project.closeTimeout = DefaultCloseTimeout
	m.close(t, s, Outcome{Done: "this"})
	m.checkFile(t, ProgressPath, entryOne)
}

// What changes between a look and the transaction is looked at again.
func TestOvertaken(t *testing.T) {
	for _, tt := range []struct {
		name      string
		prepare   func(t *testing.T, m memory)
		method    string
		meanwhile func(t *testing.T, m memory)
		check     func(t *testing.T, m memory, s *Session)
	}{
		{
			name: "an open session is closed and begins again",
			prepare: func(t *testing.T, m memory) {
				m.create(t, ProgressPath, "old")
				m.resume(t, "other")
				m.create(t, "/memories/a.md", "")
			},
			method: "Apply",
			meanwhile: func(t *testing.T, m memory) {
				m.close(t, m.resume(t, "other"), Outcome{Done: "all"})
				m.resume(t, "other")
			},
			check: func(t *testing.T, m memory, _ *Session) {
				m.checkFile(t, ProgressPath, "## Session other: not closed\n\nIt was cut off, or still ran, when session one began. "+
					"No memory file has changed since it began.\n\n## Session other\n\nDone: all\n\nold")
			},
		},
		{
			name:   "another process gives the session its context",
			method: "Put",
			meanwhile: func(t *testing.T, m memory) {
				m.create(t, "/memories/late.md", "")
				m.resume(t, "one")
			},
			check: func(t *testing.T, m memory, s *Session) {
				if want := m.resume(t, "one").Context; s.Context != want || !strings.Contains(want, "late.md") {
					t.Errorf("got context\n%s\nwant\n%s", s.Context, want)
				}
			},
		},
		{
			name:      "the record is spoiled",
			prepare:   func(t *testing.T, m memory) { m.create(t, "/memories/a.md", "") },
			method:    "Put",
			meanwhile: func(t *testing.T, m memory) { m.put(t, recordPath("one"), "x") },
			check: func(t *testing.T, _ memory, s *Session) {
				if !strings.Contains(s.Context, "/memories/a.md") {
					t.Errorf("got context\n%s\nwant what was read", s.Context)
				}
			},
		},
		{
			name:   "a directory comes in the place of the record",
			method: "Put",
			meanwhile: func(t *testing.T, m memory) {
				m.delete(t, recordPath("one"))
				m.create(t, recordPath("one")+"/x", "")
			},
			check: func(t *testing.T, m memory, s *Session) {
				m.close(t, s, Outcome{Done: "this"})
				m.checkFile(t, ProgressPath, entryOne)
			},
		},
		{
			name:   "a file comes in the place of the records",
			method: "Put",
			meanwhile: func(t *testing.T, m memory) {
				m.delete(t, RecordsDir)
				m.create(t, RecordsDir, "mine")
			},
			check: func(t *testing.T, m memory, s *Session) {
				m.close(t, s, Outcome{Done: "this"})
				m.checkFile(t, ProgressPath, entryOne)
				m.checkFile(t, RecordsDir, "mine")
			},
		},
		{
			name:      "a file comes in the place of the records before they are there",
			method:    "Apply",
			meanwhile: func(t *testing.T, m memory) { m.create(t, RecordsDir, "mine") },
			check: func(t *testing.T, m memory, _ *Session) {
				m.checkFile(t, RecordsDir+"-1", "mine")
				if open := m.open(t); !slices.Equal(open, []string{"one"}) {
					t.Errorf("got open sessions %q, want one", open)
				}
			},
		},
		{
			name:    "a file in the place of the records is put right",
			prepare: func(t *testing.T, m memory) { m.create(t, RecordsDir, "mine") },
			method:  "Apply",
			meanwhile: func(t *testing.T, m memory) {
				m.delete(t, RecordsDir)
				m.resume(t, "other")
			},
			check: func(t *testing.T, m memory, _ *Session) {
				m.checkFile(t, ProgressPath, "## Session other: not closed\n\nIt was cut off, or still ran, when session one began. "+
					"No memory file has changed since it began.\n")
			},
		},
		{
			name:   "another session begins",
			method: "Put",
			meanwhile: func(t *testing.T, m memory) {
				m.resume(t, "other")
			},
			check: func(t *testing.T, m memory, s *Session) {
				if s.Context != emptyText {
					t.Errorf("got context\n%s\nwant what was there at first", s.Context)
				}
				if open := m.open(t); !slices.Equal(open, []string{"other"}) {
					t.Errorf("got open sessions %q, want the other one", open)
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(t)
			if tt.prepare != nil {
				tt.prepare(t, m)
			}
			p := m.startProcess(t, 0, before)
			p.meanwhile = map[string]func(){tt.method: func() { tt.meanwhile(t, m) }}
			s, err := New(p.client, namespace).Resume(t.Context(), "one")
			if err != nil {
				t.Fatal(err)
			}
			if len(p.meanwhile) != 0 {
				t.Errorf("there was no %s", tt.method)
			}
			tt.check(t, m, s)
		})
	}
}

// A log that was unfit and is put right in the last moment is not moved aside.
func TestOvertaken_LogPutRight(t *testing.T) {
	m := newMemory(t)
	m.put(t, ProgressPath, "\xff")
	p := m.startProcess(t, 0, before)
	s, err := New(p.client, namespace).Resume(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	p.meanwhile = map[string]func(){"Apply": func() { // the one that finds it unfit
		p.meanwhile["Apply"] = func() { m.put(t, ProgressPath, "right") } // the one that is to move it aside
	}}
	m.close(t, s, Outcome{Done: "this"})
	m.checkFile(t, ProgressPath, entryOne+"\nright")
	if files := m.files(t); len(files) != 1 {
		t.Errorf("got files %q, want the log", files)
	}
}

// A memory that never holds still is given up on.
func TestOvertaken_Always(t *testing.T) {
	m := newMemory(t)
	p := m.startProcess(t, 0, before)
	tries := 0
	p.meanwhile = map[string]func(){}
	var appears, vanishes func()
	appears = func() {
		tries++
		p.meanwhile["Apply"] = vanishes
		m.create(t, ProgressPath, "")
	}
	vanishes = func() {
		tries++
		p.meanwhile["Apply"] = appears
		m.delete(t, ProgressPath)
	}
	s, err := New(p.client, namespace).Resume(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	p.meanwhile["Apply"] = appears
	err = s.Close(t.Context(), Outcome{Done: "this"})
	checkErrorHas(t, err, `close session "one": the memory changed too often meanwhile: Error: `)
	if tries != maxAttempts {
		t.Errorf("got %d attempts, want %d", tries, maxAttempts)
	}
}

// Two processes that resume the same session at the same moment get the same.
func TestResume_SameSessionAtOnce(t *testing.T) {
	m := newMemory(t)
	initialize(t, m.project(), shop)
	var contexts [8]string
	var running sync.WaitGroup
	for i := range contexts {
		running.Go(func() {
			s, err := m.project().Resume(t.Context(), "one")
			if err != nil {
				t.Error(err)
				return
			}
			contexts[i] = s.Context
		})
	}
	running.Wait()
	for _, got := range contexts {
		if got != contexts[0] {
			t.Errorf("got context\n%s\nand\n%s", contexts[0], got)
		}
	}
	if diff := m.open(t); !slices.Equal(diff, []string{"one"}) {
		t.Errorf("got open sessions %q, want one", diff)
	}
	if log := m.read(t, ProgressPath); strings.Contains(log, "not closed") {
		t.Errorf("got log\n%s\nwant no session in it", log)
	}
}

// Sessions that come and go at the same time lose nothing and write nothing twice.
func TestSessions_ManyAtOnce(t *testing.T) {
	const sessions = 12
	m := newMemory(t)
	var running sync.WaitGroup
	for i := range sessions {
		running.Go(func() {
			p := m.project()
			if _, err := p.Initialize(t.Context(), shop); err != nil {
				t.Error(err)
				return
			}
			s, err := p.Resume(t.Context(), fmt.Sprintf("s%02d", i))
			if err != nil {
				t.Error(err)
				return
			}
			var closing sync.WaitGroup
			for range 2 {
				closing.Go(func() {
					if err := s.Close(t.Context(), Outcome{Done: fmt.Sprintf("work %02d", i)}); err != nil {
						t.Error(err)
					}
				})
			}
			closing.Wait()
		})
	}
	running.Wait()
	log := m.read(t, ProgressPath)
	for i := range sessions {
		if want := fmt.Sprintf("## Session s%02d\n\nDone: work %02d\n", i, i); strings.Count(log, want) != 1 {
			t.Errorf("%q is %d times in the log", want, strings.Count(log, want))
		}
		if noted := fmt.Sprintf("## Session s%02d: not closed\n", i); strings.Count(log, noted) > 1 {
			t.Errorf("%q is %d times in the log", noted, strings.Count(log, noted))
		}
	}
	if n := strings.Count(log, "## Project begun\n"); n != 1 {
		t.Errorf("the project began %d times", n)
	}
	if open := m.open(t); open != nil {
		t.Errorf("got open sessions %q, want none", open)
	}
}
