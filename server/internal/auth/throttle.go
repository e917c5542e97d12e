package auth

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Defaults of a Throttle.
const (
	DefaultFailuresPerSecond = 10
	DefaultFailureBurst      = 20
	DefaultFailurePause      = time.Second
	DefaultMaxPaused         = 16
	DefaultMaxPeers          = 10_000 // about 2 MB
)

// Throttle tells who fails too often. Failures are counted by the address of the peer, an IPv6 address by its first
// 64 bits, all unix sockets together. A zero field has its default.
//
// A gRPC call that fails is answered at once all the same: while it waited it would hold a stream of a connection that
// others may share, behind a proxy. A request of HTTP/1 holds nothing but its own connection.
type Throttle struct {
	PerSecond float64       // failures of one peer that are not too many
	Burst     int           // and how many more of them may come at the same time
	Pause     time.Duration // before a failure of HTTP beyond that is answered
	MaxPaused int           // failures of one peer that wait at once; more are answered at once
	MaxPeers  int           // that are remembered; the one that failed longest ago is forgotten
}

type throttle struct {
	Throttle
	now   func() time.Time
	peers *lru.Cache[netip.Addr, *failures]
}

// failures are those of one peer.
type failures struct {
	*rate.Limiter
	paused atomic.Int64 // that wait now
}

func newThrottle(t Throttle, now func() time.Time) *throttle {
	t.PerSecond = cmp.Or(t.PerSecond, DefaultFailuresPerSecond)
	t.Burst = cmp.Or(t.Burst, DefaultFailureBurst)
	t.Pause = cmp.Or(t.Pause, DefaultFailurePause)
	t.MaxPaused = cmp.Or(t.MaxPaused, DefaultMaxPaused)
	t.MaxPeers = cmp.Or(t.MaxPeers, DefaultMaxPeers)
	return &throttle{Throttle: t, now: now, peers: newCache[netip.Addr, *failures](t.MaxPeers)}
}

// newCache returns a cache that forgets what was not used for longest.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is not positive
	}
	return cache
}

// fail counts a failure of a peer. It tells whether it is one too many.
func (t *throttle) fail(address netip.Addr) bool { return !t.of(address).AllowN(t.now(), 1) }

// pause waits after a failure that was one too many.
func (t *throttle) pause(ctx context.Context, address netip.Addr) {
	f := t.of(address)
	defer f.paused.Add(-1)
	if f.paused.Add(1) > int64(t.MaxPaused) {
		return
	}
	timer := time.NewTimer(t.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// of returns the failures of a peer.
func (t *throttle) of(address netip.Addr) *failures {
	if f, ok := t.peers.Get(address); ok {
		return f
	}
	f := &failures{Limiter: rate.NewLimiter(rate.Limit(t.PerSecond), t.Burst)}
	if other, ok, _ := t.peers.PeekOrAdd(address, f); ok {
		return other
	}
	return f
}

// PeerKey is what the peer of a connection is counted by: its IPv4 address, or the first 64 bits of its IPv6 address,
// which is what one host usually has. It is the zero address where that is no IP address, as of a unix socket.
func PeerKey(addr net.Addr) netip.Addr {
	switch addr := addr.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return hostKey(addr.AddrPort().Addr())
	}
	remote, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return hostKey(remote.Addr())
}

func hostKey(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return prefix.Addr()
}
