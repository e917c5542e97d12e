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

// fails returns how long a call with a bad token takes, and whether it is one too many.
func fails(t *testing.T, a *Authenticator, ctx context.Context) (time.Duration, bool) { //nolint:revive // t is first
	t.Helper()
	began := time.Now()
	p, err := a.Authenticate(call(ctx, "Bearer bad-token"))
	wantCause(t, p, err, errToken)
	return time.Since(began), IsThrottled(err)
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t)})
		ctx := from(t.Context(), "192.0.2.1:1")
		for i := range DefaultFailureBurst {
			if took, throttled := fails(t, a, ctx); took != 0 || throttled {
				t.Fatalf("failure %d took %s, throttled: %t", i, took, throttled)
			}
		}
		// Another port is the same peer, another address is not.
		if took, throttled := fails(t, a, from(t.Context(), "192.0.2.1:2")); took != DefaultFailurePause || !throttled {
			t.Errorf("one failure too many took %s, throttled: %t", took, throttled)
		}
		if took, throttled := fails(t, a, from(t.Context(), "192.0.2.2:1")); took != 0 || throttled {
			t.Errorf("another address took %s, throttled: %t", took, throttled)
		}
		// During the pause the peer got its share of a second back.
		for i := range DefaultFailuresPerSecond {
			if took, throttled := fails(t, a, ctx); took != 0 || throttled {
				t.Fatalf("failure %d after a second took %s, throttled: %t", i, took, throttled)
			}
		}
		if took, throttled := fails(t, a, ctx); took != DefaultFailurePause || !throttled {
			t.Errorf("one failure too many after a second took %s, throttled: %t", took, throttled)
		}
	})
}

func TestThrottle_PauseEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{Burst: 1}})
		ctx, cancel := context.WithTimeout(from(t.Context(), "192.0.2.1:1"), 100*time.Millisecond)
		defer cancel()
		fails(t, a, ctx)
		if took, throttled := fails(t, a, ctx); took != 100*time.Millisecond || !throttled {
			t.Errorf("took %s, throttled: %t", took, throttled)
		}
	})
}

// Ten thousand bad tokens from one address delay no good one from there, and hold only so many calls.
func TestThrottle_Burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t)})
		ctx := from(t.Context(), "192.0.2.1:1")
		began := time.Now()
		var answered, throttled atomic.Int64
		var all sync.WaitGroup
		for range 10_000 {
			all.Go(func() {
				_, err := a.Authenticate(call(ctx, "Bearer bad-token"))
				if IsThrottled(err) {
					throttled.Add(1)
				}
				answered.Add(1)
			})
		}
		synctest.Wait()
		if got, want := answered.Load(), int64(10_000-DefaultMaxPaused); got != want {
			t.Errorf("%d are answered at once, want %d", got, want)
		}
		for range 100 {
			p, err := a.Authenticate(call(ctx, "Bearer good-token"))
			wantName(t, p, err, "support")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("good tokens took %s", took)
		}
		all.Wait()
		if got, want := throttled.Load(), int64(10_000-DefaultFailureBurst); got != want {
			t.Errorf("%d failures are throttled, want %d", got, want)
		}
		if took := time.Since(began); took != DefaultFailurePause {
			t.Errorf("all took %s, want %s", took, DefaultFailurePause)
		}
	})
}

// A pause that is over makes room for the next.
func TestThrottle_PauseAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{PerSecond: 0.01, Burst: 1, MaxPaused: 1}})
		ctx := from(t.Context(), "192.0.2.1:1")
		fails(t, a, ctx)
		for i := range 3 {
			if took, throttled := fails(t, a, ctx); took != DefaultFailurePause || !throttled {
				t.Errorf("failure %d took %s, throttled: %t", i, took, throttled)
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

func TestAuthenticateHTTP_Throttle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Policy: tokenPolicy(t), Throttle: Throttle{Burst: 1}})
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.RemoteAddr = "192.0.2.1:1"
		fails(t, a, from(t.Context(), "192.0.2.1:2"))
		began := time.Now()
		if _, err := a.AuthenticateHTTP(request); !IsThrottled(err) || time.Since(began) != DefaultFailurePause {
			t.Errorf("got %v after %s, want one failure too many", err, time.Since(began))
		}
	})
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
			if got := peerKey(test.addr).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
