package auth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fails tells whether a call with a bad token is one too many. It is not paused.
func fails(t *testing.T, a *Authenticator, ctx context.Context) bool { //nolint:revive // t is first
	t.Helper()
	began := time.Now()
	p, err := a.Authenticate(call(ctx, "Bearer bad-token"))
	wantCause(t, p, err, errToken)
	if took := time.Since(began); took >= DefaultFailurePause {
		t.Errorf("a failure took %s", took)
	}
	return IsThrottled(err)
}

// failsHTTP returns how long a request with a bad token takes, and whether it is one too many.
func failsHTTP(t *testing.T, a *Authenticator, ctx context.Context) (time.Duration, bool) { //nolint:revive // t is first
	t.Helper()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.RemoteAddr = "192.0.2.1:1"
	request.Header.Set("Authorization", "Bearer bad-token")
	began := time.Now()
	p, err := a.AuthenticateHTTP(request)
	wantCause(t, p, err, errToken)
	return time.Since(began), IsThrottled(err)
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t)})
		ctx := from(t.Context(), "192.0.2.1:1")
		for i := range DefaultFailureBurst {
			if fails(t, a, ctx) {
				t.Fatalf("failure %d is one too many", i)
			}
		}
		// Another port is the same peer, another address is not.
		if !fails(t, a, from(t.Context(), "192.0.2.1:2")) {
			t.Error("one failure too many is not")
		}
		if fails(t, a, from(t.Context(), "192.0.2.2:1")) {
			t.Error("the first failure of another address is one too many")
		}
		// A second later the peer has its share of it.
		time.Sleep(time.Second)
		for i := range DefaultFailuresPerSecond {
			if fails(t, a, ctx) {
				t.Fatalf("failure %d after a second is one too many", i)
			}
		}
		if !fails(t, a, ctx) {
			t.Error("one failure too many after a second is not")
		}
	})
}

// Ten thousand bad tokens from one address take no time, and delay no good one.
func TestThrottle_Burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t)})
		ctx := from(t.Context(), "192.0.2.1:1")
		throttled := 0
		for range 10_000 {
			if fails(t, a, ctx) {
				throttled++
			}
		}
		if want := 10_000 - DefaultFailureBurst; throttled != want {
			t.Errorf("%d failures are one too many, want %d", throttled, want)
		}
		p, err := a.Authenticate(call(ctx, "Bearer good-token"))
		wantName(t, p, err, "support")
	})
}

func TestThrottle_HTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{PerSecond: 0.01, Burst: 1}})
		if took, throttled := failsHTTP(t, a, t.Context()); took != 0 || throttled {
			t.Errorf("the first failure took %s, throttled: %t", took, throttled)
		}
		for i := range 3 {
			if took, throttled := failsHTTP(t, a, t.Context()); took != DefaultFailurePause || !throttled {
				t.Errorf("failure %d took %s, throttled: %t", i, took, throttled)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if took, _ := failsHTTP(t, a, ctx); took != 100*time.Millisecond {
			t.Errorf("a request that ends waits for %s", took)
		}
	})
}

// The pauses of one peer are bounded, and those that are over make room for others.
func TestThrottle_PausesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{PerSecond: 0.01, Burst: 1}})
		fails(t, a, from(t.Context(), "192.0.2.1:2"))
		for range 2 {
			var atOnce, late atomic.Int64
			var all sync.WaitGroup
			for range DefaultMaxPaused + 5 {
				all.Go(func() {
					if took, _ := failsHTTP(t, a, t.Context()); took == 0 {
						atOnce.Add(1)
					} else {
						late.Add(1)
					}
				})
			}
			all.Wait()
			if atOnce.Load() != 5 || late.Load() != DefaultMaxPaused {
				t.Errorf("%d are answered at once and %d late, want 5 and %d", atOnce.Load(), late.Load(), DefaultMaxPaused)
			}
		}
	})
}

func TestThrottle_PeersAreBounded(t *testing.T) {
	a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{MaxPeers: 10}})
	for i := range 100 {
		fails(t, a, from(t.Context(), fmt.Sprintf("192.0.2.%d:1", i)))
	}
	if got := a.throttle.peers.Len(); got != 10 {
		t.Errorf("%d peers are remembered, want 10", got)
	}
}

func TestPeerKey(t *testing.T) {
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	tests := []struct {
		name string
		addr net.Addr
		want string
	}{
		{"IPv4", tcp("192.0.2.1:1"), "192.0.2.1"},
		{"IPv4 in IPv6", tcp("[::ffff:192.0.2.1]:1"), "192.0.2.1"},
		{"IPv6", tcp("[2001:db8:1:2:3:4:5:6]:1"), "2001:db8:1:2::"},
		{"IPv6 with a zone", tcp("[fe80::1%eth0]:1"), "fe80::"},
		{"UDP", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, "192.0.2.1"},
		{"unix", &net.UnixAddr{Name: "/run/memoryd.sock", Net: "unix"}, "invalid IP"},
		{"none", nil, "invalid IP"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := PeerKey(test.addr).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
