package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
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
	c := newConnections(1, remoteAddress, log.logger())
	now := time.Unix(0, 0)
	c.refused.now = func() time.Time { return now }
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
	c := newConnections(1, remoteAddress, log.logger())
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

// farConn is a connection from an address.
type farConn struct {
	net.Conn
	remote net.Addr
}

func (c farConn) RemoteAddr() net.Addr { return c.remote }

func (farConn) Close() error { return nil }

func TestConnections_OfOneAddress(t *testing.T) {
	tests := []struct {
		name  string
		from  []string
		other string // one that shares nothing with those
		want  int    // of from that are accepted
		key   func(net.Addr) netip.Addr
	}{
		{"IPv4", []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"}, "192.0.2.2:1", 2, remoteAddress},
		{"IPv6", []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3:0:0:1]:1"}, "[2001:db8:0:1::1]:1", 2, remoteAddress},
		{"loopback", []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "192.0.2.1:1", 3, remoteAddress},
		{"loopback of IPv6", []string{"[::1]:1", "[::1]:2", "[::1]:3"}, "192.0.2.1:1", 3, remoteAddress},
		{"loopback at the side port", []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "192.0.2.1:1", 2, auth.PeerKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newConnections(2*addressShare, tt.key, slog.New(slog.DiscardHandler))
			add := func(address string) (*connection, error) {
				return c.add(farConn{remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))})
			}
			var accepted []*connection
			for _, address := range tt.from {
				conn, err := add(address)
				if err == nil {
					accepted = append(accepted, conn)
				} else if !errors.Is(err, errTooManyOfAddress) {
					t.Error(err)
				}
			}
			if len(accepted) != tt.want {
				t.Errorf("%d connections were accepted, want %d", len(accepted), tt.want)
			}
			if _, err := add(tt.other); err != nil {
				t.Errorf("another address: %v", err)
			}
			_, _ = accepted[0].Close(), accepted[0].Close() // gives back one
			if _, err := add(tt.from[0]); err != nil {
				t.Errorf("after one was closed: %v", err)
			}
			if _, err := add(tt.from[0]); tt.want == 2 && !errors.Is(err, errTooManyOfAddress) {
				t.Errorf("got %v, want %v: closing twice gave back two", err, errTooManyOfAddress)
			}
			if got, want := len(c.from), len(c.open); got != want {
				t.Errorf("%d connections are known by address, want %d", got, want)
			}
		})
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
	for range 2*maxHTTPConns - maxHTTPConns/addressShare {
		<-refused
	}
	if !strings.Contains(log.String(), errTooManyOfAddress.Error()) {
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

func TestConnections_Count(t *testing.T) {
	c := newConnections(1, remoteAddress, slog.New(slog.DiscardHandler))
	near, far := net.Pipe()
	conn, err := c.add(near)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = far.Write([]byte("abc"))
		_, _ = io.Copy(io.Discard, far)
	}()
	want := func(open int, received, sent int64) {
		t.Helper()
		if c.count() != open || c.receivedBytes() != received || c.sentBytes() != sent {
			t.Errorf("got %d connections, %d bytes received and %d sent, want %d, %d and %d",
				c.count(), c.receivedBytes(), c.sentBytes(), open, received, sent)
		}
	}
	want(1, 0, 0)
	if _, err := conn.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	want(1, 3, 0)
	if _, err := conn.Write(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	want(1, 3, 5)
	_ = conn.Close()
	want(0, 3, 5)
}
