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
}

// arrival is a request that is waited for.
type arrival struct {
	mu      sync.Mutex
	over    bool // it has come, or is no longer waited for
	timer   *time.Timer
	unhooks []func() bool
}

type arrivalKey struct{}

// begin is the tap handle. It runs on the goroutine that reads the connection, with the transport locked.
func (a *arrivals) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &arrival{}
	giveUp := func() {
		if r.end() {
			a.gaveUp()
			cancel()
		}
	}
	wait := a.timeout
	if accessTo(info.FullMethodName).need == needNothing {
		wait = min(wait, strangerPatience)
	}
	if a.draining.Err() != nil {
		wait = patience
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(wait, giveUp)
	r.unhooks = []func() bool{
		context.AfterFunc(a.draining, func() { time.AfterFunc(patience, giveUp) }),
		context.AfterFunc(ctx, func() { r.end() }), // a client that gives up leaves nothing behind
	}
	return context.WithValue(ctx, arrivalKey{}, r), nil
}

// end ends the wait. It returns false where that was over before.
func (r *arrival) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.over = true
	r.timer.Stop()
	for _, unhook := range r.unhooks {
		unhook()
	}
	return true
}

// arrived notes that the request of a call has come, or that its messages are waited for one by one.
func arrived(ctx context.Context) {
	if r, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		r.end()
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
