package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// brokenListener fails to accept with an error.
type brokenListener struct {
	net.Listener
	err error
}

func (l *brokenListener) Accept() (net.Conn, error) { return nil, l.err }

func (l *brokenListener) Addr() net.Addr { return &net.UnixAddr{Name: "m.sock", Net: "unix"} }

func TestConnections_AcceptErrors(t *testing.T) {
	log := &logBuffer{}
	c := newConnections(1, log.logger())
	now := time.Unix(0, 0)
	c.now = func() time.Time { return now }
	broken := &brokenListener{err: &net.OpError{Op: "accept", Net: "unix", Err: syscall.EMFILE}}
	l := c.wrap(broken)
	accept := func() {
		t.Helper()
		if _, err := l.Accept(); !errors.Is(err, broken.err) {
			t.Errorf("got %v, want %v", err, broken.err)
		}
	}
	wantLines := func(want int) {
		t.Helper()
		const line = `"level":"WARN","msg":"cannot accept connections","address":"m.sock"`
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("got %d lines, want %d:\n%s", got, want, log)
		}
	}
	accept()
	wantLines(1)
	if !strings.Contains(log.String(), "too many open files") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	now = now.Add(warnEvery - 1)
	accept()
	accept()
	wantLines(1)
	now = now.Add(1)
	accept()
	wantLines(2)
	if want := `"times":3`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
	now = now.Add(warnEvery)
	broken.err = net.ErrClosed // As every stop has it.
	accept()
	wantLines(2)
}

func TestConnections_TooMany(t *testing.T) {
	log := &logBuffer{}
	c := newConnections(1, log.logger())
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := c.wrap(tcp)
	defer closeListener(t, l)
	open := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	accepted := make(chan net.Conn)
	go func() {
		for range 2 {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- conn
		}
	}()
	open()
	first := <-accepted
	if _, err := open().Read(make([]byte, 1)); err == nil {
		t.Error("a connection too many was not closed")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	second := <-accepted // after the line in the log: one is accepted after the other
	if want := errTooManyConnections.Error(); !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, log)
	}
	c.closeAll()
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// TestServer_SidePortIsBounded opens connections to the side port that send no request.
func TestServer_SidePortIsBounded(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{HTTP: "127.0.0.1:0", Logger: log.logger()})
	if code, _ := httpGet(t, r, "/healthz"); code != 200 {
		t.Fatalf("got status %d, want 200", code)
	}
	refused := make(chan struct{}, 2*maxHTTPConns)
	for range 2 * maxHTTPConns {
		conn, err := net.Dial("tcp", r.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				refused <- struct{}{}
			}
		}()
	}
	for range maxHTTPConns {
		<-refused
	}
	if !strings.Contains(log.String(), errTooManyConnections.Error()) {
		t.Errorf("the log does not say that connections are refused:\n%s", log)
	}
	if _, err := view(t.Context(), r); err != nil {
		t.Errorf("a call meanwhile: %v", err)
	}
}

// TestServer_AcceptErrors has a listener that fails for a while.
func TestServer_AcceptErrors(t *testing.T) {
	log := &logBuffer{}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flaky := &flakyListener{Listener: tcp, failures: 2}
	r := start(t, Config{Listeners: []net.Listener{flaky}, Logger: log.logger()})
	if _, err := view(t.Context(), r); err != nil {
		t.Errorf("the server did not get over it: %v", err)
	}
	if got := strings.Count(log.String(), "cannot accept connections"); got != 1 {
		t.Errorf("got %d lines about it, want 1:\n%s", got, log)
	}
}

// flakyListener fails a few times as if too many files were open.
type flakyListener struct {
	net.Listener
	failures int
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestConnections_Traffic(t *testing.T) {
	c := newConnections(1, slog.New(slog.DiscardHandler))
	near, far := net.Pipe()
	conn, ok := c.add(near)
	if !ok {
		t.Fatal("the only connection was refused")
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = far.Write([]byte("x"))
		_, _ = io.Copy(io.Discard, far)
	}()
	for want, op := range []func([]byte) (int, error){conn.Read, conn.Write} {
		if got := c.traffic.Load(); got != int64(want) {
			t.Errorf("got %d signs of traffic, want %d", got, want)
		}
		if _, err := op(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.traffic.Load(); got != 2 {
		t.Errorf("got %d signs of traffic, want 2", got)
	}
}
