package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// warnEvery is how often at most the log says that connections cannot be accepted.
const warnEvery = time.Minute

// connections bounds how many connections are open at once, over all listeners that it wraps, and tells the log where
// one could not be accepted. A connection too many is closed at once, so that its client learns of it.
type connections struct {
	most   int
	logger *slog.Logger
	now    func() time.Time

	traffic atomic.Int64 // reads and writes that came to something

	mu      sync.Mutex
	open    map[*connection]struct{}
	warned  time.Time // when the log was told last; zero is never
	refused int       // connections not accepted since
}

func newConnections(most int, logger *slog.Logger) *connections {
	return &connections{most: most, logger: logger, now: time.Now, open: map[*connection]struct{}{}}
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
func (c *connections) add(conn net.Conn) (*connection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most {
		return nil, false
	}
	added := &connection{Conn: conn, of: c}
	c.open[added] = struct{}{}
	return added, true
}

func (c *connections) remove(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// warn counts a connection that was not accepted, and logs the first and then one a minute.
func (c *connections) warn(address net.Addr, err error) {
	c.mu.Lock()
	now := c.now()
	c.refused++
	refused := c.refused
	quiet := !c.warned.IsZero() && now.Sub(c.warned) < warnEvery
	if !quiet {
		c.warned, c.refused = now, 0
	}
	c.mu.Unlock()
	if !quiet {
		c.logger.WarnContext(context.Background(), "cannot accept connections",
			"address", address.String(), "times", refused, "error", err)
	}
}

// listener is a net.Listener whose connections are bounded.
type listener struct {
	net.Listener
	of *connections
}

// wrap returns l with its connections bounded.
func (c *connections) wrap(l net.Listener) net.Listener { return &listener{l, c} }

var errTooManyConnections = errors.New("too many connections are open; the one that came was closed")

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
		if added, ok := l.of.add(conn); ok {
			return added, nil
		}
		_ = conn.Close() // Nothing was said on it.
		l.of.warn(l.Addr(), errTooManyConnections)
	}
}

// connection is an open connection. That it is no *net.TCPConn keeps gRPC from setting TCP_USER_TIMEOUT; keepalive
// finds a peer that is gone nevertheless.
type connection struct {
	net.Conn
	of *connections
}

// NetConn returns the connection within, which knows its socket.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.of.traffic.Add(1)
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.of.traffic.Add(1)
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}
