package client

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// proxy stands between a client and a service, and knows nothing of what it carries. It forwards until it is told
// otherwise.
type proxy struct {
	target  string // the client's
	network string // of the service
	address string

	mu       sync.Mutex
	changed  *sync.Cond // a field below, or conns
	requests fate       // of what comes from clients
	answers  fate       // of what comes from the service
	conns    map[net.Conn]struct{}
	closed   bool
}

// fate is what becomes of bytes.
type fate int

const (
	forwarded fate = iota
	held           // until they have another fate
	cut            // with the connection, once
)

func startProxy(t *testing.T, service net.Addr) *proxy {
	t.Helper()
	l := listen(t, "unix", filepath.Join(t.TempDir(), "proxy.sock"))
	p := &proxy{
		target: "unix:" + l.Addr().String(), network: service.Network(), address: service.String(),
		conns: make(map[net.Conn]struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.set(func() { p.closed = true })
		p.cutAll()
		running.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	service, err := net.Dial(p.network, p.address)
	if err != nil { // as if nobody listened
		_ = client.Close()
		return
	}
	end := func() {
		_ = client.Close()
		_ = service.Close()
	}
	defer end()
	p.set(func() {
		p.conns[client], p.conns[service] = struct{}{}, struct{}{}
	})
	defer p.set(func() {
		delete(p.conns, client)
		delete(p.conns, service)
	})
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(service, client, &p.requests); end() })
	pumps.Go(func() { p.pump(client, service, &p.answers); end() })
	pumps.Wait()
}

// pump carries bytes in one direction until either side ends.
func (p *proxy) pump(to io.Writer, from net.Conn, f *fate) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !p.allow(from, f) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// allow waits until bytes that have come have a fate, and tells whether it is to be forwarded.
func (p *proxy) allow(from net.Conn, f *fate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for *f == held && !p.closed {
		if _, ok := p.conns[from]; !ok {
			return false
		}
		p.changed.Wait()
	}
	if *f == cut {
		*f = forwarded
		return false
	}
	return !p.closed
}

// set changes fields of the proxy.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// cutAll closes the connections that there are.
func (p *proxy) cutAll() {
	p.set(func() {
		for c := range p.conns {
			if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				continue // it is closed in any case
			}
		}
		clear(p.conns)
	})
}
