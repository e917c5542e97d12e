package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// addressShare is into how many parts connections and watches are divided: one address has at most one part.
const addressShare = 4

// warnEvery is how often at most the log says the same about connections.
const warnEvery = time.Minute

// sparse says which of many events the log is to be told of: the first, and then one a warnEvery.
type sparse struct {
	now func() time.Time

	mu    sync.Mutex
	told  time.Time // when the log was told last; zero is never
	times int       // events since
}

// note counts an event. Where the log is to be told of it, due is true and times says how many there were since it was
// told last.
func (s *sparse) note() (times int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times++
	times = s.times
	now := s.now()
	if due = s.told.IsZero() || now.Sub(s.told) >= warnEvery; due {
		s.told, s.times = now, 0
	}
	return times, due
}

// connections bounds how many connections are open at once, over all listeners that it wraps, in all and of one
// address, and tells the log where one could not be accepted. A connection too many is closed at once, so that its
// client learns of it.
type connections struct {
	slots   *shares[netip.Addr]
	key     func(net.Addr) netip.Addr // what the other end is counted by
	logger  *slog.Logger
	refused sparse // connections that were not accepted
	// slowStrangers: until somebody is known on a connection, it is one of strangers.
	slowStrangers bool
	closed        sparse // connections of strangers that were closed

	received, sent atomic.Int64 // bytes

	mu   sync.Mutex
	open map[*connection]struct{}
	from map[net.Addr]*connection // those of open that can be told by the address of their other end
}

func newConnections(most int, key func(net.Addr) netip.Addr, logger *slog.Logger) *connections {
	return &connections{
		slots: newShares[netip.Addr](most, most/addressShare), key: key, logger: logger,
		refused: sparse{now: time.Now}, closed: sparse{now: time.Now},
		open: map[*connection]struct{}{}, from: map[net.Addr]*connection{},
	}
}

// remoteAddress is what the other end of a connection for calls is counted by: see auth.PeerKey. Unix sockets and
// loopback count as nobody: a proxy on this machine, such as a sidecar, speaks for everyone behind it.
func remoteAddress(addr net.Addr) netip.Addr {
	key := auth.PeerKey(addr)
	if key.IsLoopback() || key == netip.IPv6Unspecified() { // The latter has the first 64 bits of ::1.
		return netip.Addr{}
	}
	return key
}

// receivedBytes returns how many bytes came on connections, those of TLS and HTTP/2 themselves included.
func (c *connections) receivedBytes() int64 { return c.received.Load() }

// sentBytes returns how many bytes were sent on connections, as receivedBytes does.
func (c *connections) sentBytes() int64 { return c.sent.Load() }

// count returns how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// closeAll closes what is open.
func (c *connections) closeAll() {
	c.mu.Lock()
	open := make([]*connection, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // Its reader learns of it.
	}
}

// add takes a connection in, unless there are too many.
func (c *connections) add(conn net.Conn) (*connection, error) {
	added := &connection{Conn: conn, of: c, remote: conn.RemoteAddr()}
	added.key = c.key(added.remote)
	if c.slowStrangers {
		added.stranger = newStranger()
	}
	switch c.slots.take(added.key) {
	case noneLeft:
		return nil, errTooManyConnections
	case shareUsed:
		return nil, fmt.Errorf("%w: %s has %d", errTooManyOfAddress, added.key, c.slots.each)
	case took:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[added] = struct{}{}
	if distinct(added.remote) {
		c.from[added.remote] = added
	}
	return added, nil
}

// distinct tells whether an address stands for one connection: package net makes one for each that it accepts, and they
// are told apart as pointers.
func distinct(addr net.Addr) bool {
	switch addr.(type) {
	case *net.TCPAddr, *net.UnixAddr:
		return true
	default:
		return false
	}
}

func (c *connections) remove(conn *connection) {
	c.mu.Lock()
	_, open := c.open[conn]
	delete(c.open, conn)
	if distinct(conn.remote) {
		delete(c.from, conn.remote)
	}
	c.mu.Unlock()
	if open { // It may be closed twice.
		c.slots.give(conn.key)
	}
}

// warn counts a connection that was not accepted, and logs the first and then one a minute.
func (c *connections) warn(address net.Addr, err error) {
	if times, due := c.refused.note(); due {
		c.logger.WarnContext(context.Background(), "cannot accept connections",
			"address", address.String(), "times", times, "error", err)
	}
}

// listener is a net.Listener whose connections are bounded.
type listener struct {
	net.Listener
	of *connections
}

// wrap returns l with its connections bounded.
func (c *connections) wrap(l net.Listener) net.Listener { return &listener{l, c} }

// Why connections are closed as they come.
var (
	errTooManyConnections = errors.New("too many connections are open; the one that came was closed")
	errTooManyOfAddress   = errors.New("too many connections of one address are open; the one that came was closed")
)

// Accept implements net.Listener. The servers try again after an error that is temporary, such as that no file can be
// opened, and return any other.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				l.of.warn(l.Addr(), err)
			}
			return nil, err
		}
		added, err := l.of.add(conn)
		if err == nil {
			return added, nil
		}
		_ = conn.Close() // Nothing was said on it.
		l.of.warn(l.Addr(), err)
	}
}

// connection is an open connection. That it is no *net.TCPConn keeps gRPC from setting TCP_USER_TIMEOUT; keepalive
// finds a peer that is gone nevertheless.
type connection struct {
	net.Conn
	of       *connections
	remote   net.Addr
	key      netip.Addr // what it is counted by
	stranger *stranger  // nil where everyone is trusted
}

// RemoteAddr returns the same address every time, by which a call finds its connection.
func (c *connection) RemoteAddr() net.Addr { return c.remote }

// NetConn returns the connection within, which knows its socket.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.of.received.Add(int64(n))
		c.stranger.read(n)
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.of.sent.Add(int64(n))
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.remove(c)
	c.stranger.release()
	return c.Conn.Close()
}
