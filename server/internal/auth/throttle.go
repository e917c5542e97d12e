package auth

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Defaults of a Throttle.
const (
	DefaultFailuresPerSecond = 10
	DefaultFailureBurst      = 20
	DefaultFailurePause      = time.Second
	DefaultMaxPaused         = 1_000
	DefaultMaxPeers          = 10_000 // about 2 MB
)

// Throttle slows down whoever guesses. Failures are counted by the address of the peer, an IPv6 address by its first
// 64 bits, all unix sockets together. A zero field has its default.
type Throttle struct {
	PerSecond float64       // failures of one peer that are answered at once
	Burst     int           // and how many more of them may come at the same time
	Pause     time.Duration // before a failure beyond that is answered
	MaxPaused int           // failures that wait at once; more are answered at once, since waiting costs memory
	MaxPeers  int           // that are remembered; the one that failed longest ago is forgotten
}

type throttle struct {
	Throttle
	now    func() time.Time
	peers  *lru.Cache[netip.Addr, *rate.Limiter]
	paused chan struct{}
}

func newThrottle(t Throttle, now func() time.Time) *throttle {
	t.PerSecond = cmp.Or(t.PerSecond, DefaultFailuresPerSecond)
	t.Burst = cmp.Or(t.Burst, DefaultFailureBurst)
	t.Pause = cmp.Or(t.Pause, DefaultFailurePause)
	t.MaxPaused = cmp.Or(t.MaxPaused, DefaultMaxPaused)
	t.MaxPeers = cmp.Or(t.MaxPeers, DefaultMaxPeers)
	return &throttle{
		Throttle: t, now: now, peers: newCache[netip.Addr, *rate.Limiter](t.MaxPeers),
		paused: make(chan struct{}, t.MaxPaused),
	}
}

// newCache returns a cache that forgets what was not used for longest.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is not positive
	}
	return cache
}

// fail counts a failure of a peer. It returns after a pause, and true, where it is one too many.
func (t *throttle) fail(ctx context.Context, address netip.Addr) bool {
	if t.limiter(address).AllowN(t.now(), 1) {
		return false
	}
	select {
	case t.paused <- struct{}{}:
	default:
		return true
	}
	defer func() { <-t.paused }()
	timer := time.NewTimer(t.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

func (t *throttle) limiter(address netip.Addr) *rate.Limiter {
	if l, ok := t.peers.Get(address); ok {
		return l
	}
	l := rate.NewLimiter(rate.Limit(t.PerSecond), t.Burst)
	if other, ok, _ := t.peers.PeekOrAdd(address, l); ok {
		return other
	}
	return l
}

// peerKey is throttleKey of the address of a connection. It is the zero address where that is no IP address.
func peerKey(addr net.Addr) netip.Addr {
	switch addr := addr.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return throttleKey(addr.AddrPort().Addr())
	}
	remote, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return throttleKey(remote.Addr())
}

// throttleKey is what the failures of an address are counted by. One host usually has 64 bits of IPv6 addresses.
func throttleKey(addr netip.Addr) netip.Addr {
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
