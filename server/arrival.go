package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// patience is how long a server that stops waits for a sign of a client: for the next message of a request, for a
// message to be taken, for the end of a connection. A client that says nothing holds up no stop for longer.
const patience = 500 * time.Millisecond

// arrivals bounds how long requests are waited for. gRPC reads the request of a unary call before the first
// interceptor, so that none can bound that; but the reading ends with the context that the tap handle returns, which
// gRPC calls when it has the headers of a call. It answers CANCELLED then. Nothing else of a call is bounded here.
type arrivals struct {
	timeout  time.Duration   // of one request
	draining context.Context // done when the server begins to stop
	gaveUp   func()          // counts a request that did not come in time

	running  atomic.Int64 // calls whose request has come and that have not ended
	finished atomic.Int64 // such calls that have ended

	hooked  sync.Once // to draining
	mu      sync.Mutex
	waiting []*call     // whose requests are waited for, in no order
	looked  int         // at how many of them it was looked for such that are gone
	timer   *time.Timer // one for all, since nearly every request comes at once
	due     time.Time   // when the timer fires, at the latest when the first wait is over; zero: it does not run
}

// arrival is what arrivals know of a call.
type arrival struct {
	of       *arrivals
	place    int // in waiting and counted from 1; 0: it is not waited for
	deadline time.Time
}

// begin is the tap handle. It runs on the goroutine that reads the connection, with the transport locked.
func (a *arrivals) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	a.hooked.Do(func() { context.AfterFunc(a.draining, a.hurry) })
	c := &call{arrival: arrival{of: a}, requestID: givenRequestID(info.Header[requestIDKey])}
	c.Context, c.cancel = context.WithCancel(ctx)
	wait := a.timeout
	if accessTo(info.FullMethodName).need == needNothing {
		wait = min(wait, strangerPatience)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining.Err() != nil {
		wait = patience
	}
	now := time.Now()
	a.forgetSome()
	a.waiting = append(a.waiting, c)
	c.arrival.place, c.arrival.deadline = len(a.waiting), now.Add(wait)
	a.wake(now, c.arrival.deadline)
	return c, nil
}

// forgetSome looks at a few of the calls that are waited for, one after the other over time, and forgets those that are
// gone: a client may open calls and give them up as fast as it can, and there are never many more kept than are open.
func (a *arrivals) forgetSome() {
	const some = 2
	for range min(some, len(a.waiting)) {
		if a.looked >= len(a.waiting) {
			a.looked = 0
		}
		if c := a.waiting[a.looked]; c.Err() != nil {
			a.remove(c)
		} else {
			a.looked++
		}
	}
}

// wake has the timer fire at a time, unless it does before.
func (a *arrivals) wake(now, at time.Time) {
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(at.Sub(now), a.giveUp)
	case a.due.IsZero() || at.Before(a.due):
		a.timer.Reset(at.Sub(now))
	default:
		return
	}
	a.due = at
}

// giveUp ends the waits that are over.
func (a *arrivals) giveUp() {
	for _, c := range a.overdue() {
		if c.Err() == nil { // Else its client gave up before.
			a.gaveUp()
			c.cancel()
		}
	}
}

// overdue returns the calls that are no longer waited for, and sets the timer for the others.
func (a *arrivals) overdue() []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	var over []*call
	var next time.Time
	for i := 0; i < len(a.waiting); {
		c := a.waiting[i]
		if !c.arrival.deadline.After(now) {
			over = append(over, c)
			a.remove(c) // Another is in its place.
			continue
		}
		if next.IsZero() || c.arrival.deadline.Before(next) {
			next = c.arrival.deadline
		}
		i++
	}
	a.due = time.Time{}
	if !next.IsZero() {
		a.wake(now, next)
	}
	return over
}

// hurry shortens the waits when the server begins to stop.
func (a *arrivals) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	last := now.Add(patience)
	for _, c := range a.waiting {
		if c.arrival.deadline.After(last) {
			c.arrival.deadline = last
		}
		a.wake(now, c.arrival.deadline)
	}
}

// remove ends the wait for a call.
func (a *arrivals) remove(c *call) {
	last := len(a.waiting) - 1
	a.waiting[last].arrival.place = c.arrival.place
	a.waiting[c.arrival.place-1] = a.waiting[last]
	a.waiting[last] = nil
	a.waiting = a.waiting[:last]
	c.arrival.place = 0
}

// arrived notes that the request of a call has come, or that its messages are waited for one by one.
func arrived(ctx context.Context) {
	c := callFrom(ctx)
	if c == nil || c.arrival.of == nil {
		return
	}
	a := c.arrival.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.arrival.place > 0 {
		a.remove(c)
	}
}

// start notes that a call runs.
func (a *arrivals) start() { a.running.Add(1) }

func (a *arrivals) finish() {
	a.finished.Add(1)
	a.running.Add(-1)
}

func (a *arrivals) unary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	arrived(ctx)
	a.start()
	defer a.finish()
	return handler(ctx, req)
}

func (a *arrivals) stream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	if accessTo(info.FullMethod).need == needNothing {
		ss = strangersStream{ss}
	} else {
		arrived(ss.Context())
	}
	a.start()
	defer a.finish()
	return handler(srv, ss)
}

// strangersStream is a stream that needs no credential, such as Watch of health. Its first message is waited for as a
// request is.
type strangersStream struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s strangersStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	arrived(s.Context())
	return err
}
