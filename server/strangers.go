package server

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
)

// What a connection may cost on which nobody has been known yet. A call with a good credential lifts all of it.
const (
	// maxStrangerCalls is how many calls may fail. Then the connection is closed, so that a flood of bad tokens pays for
	// handshakes; a connection that others share, behind a proxy, is left alone.
	maxStrangerCalls = 100
	// strangerBurst and strangerBytes are how many bytes are read at once, and a second: health checks have messages
	// too, of up to the size of any other.
	strangerBurst = 64 << 10
	strangerBytes = 16 << 10
	// strangerPatience is how long the request of a health check is waited for.
	strangerPatience = 2 * time.Second
)

// stranger is what is kept of a connection on which nobody has been known yet. A nil stranger is known.
type stranger struct {
	failed    atomic.Int64 // calls
	allowance *rate.Limiter
	known     context.Context // done when somebody is, or the connection is closed
	setKnown  context.CancelFunc
}

func newStranger() *stranger {
	s := &stranger{allowance: rate.NewLimiter(strangerBytes, strangerBurst)}
	s.known, s.setKnown = context.WithCancel(context.Background())
	return s
}

// read waits after bytes were read, for as long as a stranger has to.
func (s *stranger) read(bytes int) {
	for s != nil && bytes > 0 && s.known.Err() == nil {
		some := min(bytes, strangerBurst)
		_ = s.allowance.WaitN(s.known, some) // It fails where nobody has to wait any more.
		bytes -= some
	}
}

// fail counts a call that failed. It tells whether that was one too many.
func (s *stranger) fail() bool {
	return s.failed.Add(1) > maxStrangerCalls && s.known.Err() == nil
}

// release lifts what strangers are held to.
func (s *stranger) release() {
	if s != nil {
		s.setKnown()
	}
}

// authenticated notes whether the caller of a call is known. A connection of nothing but strangers is closed.
func (c *connections) authenticated(ctx context.Context, known bool) {
	p, ok := peer.FromContext(ctx)
	if !ok || !distinct(p.Addr) {
		return
	}
	c.mu.Lock()
	conn := c.from[p.Addr]
	c.mu.Unlock()
	switch {
	case conn == nil || conn.stranger == nil:
		return
	case known:
		conn.stranger.release()
		return
	case !conn.stranger.fail():
		return
	}
	if times, due := c.closed.note(); due {
		c.logger.WarnContext(ctx, "closing a connection on which no call had a valid credential",
			"peer", p.Addr.String(), "times", times)
	}
	_ = conn.Close() // Its reader learns of it.
}
