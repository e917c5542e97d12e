package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// streamAllowance is how many times longer than another call a stream of a file may take, or one message of a backup.
const streamAllowance = 10

// timeouts bounds how long calls take. The services of others, health and reflection, have streams that stay open; they
// have no time limit and end with the context ended, since a graceful stop would wait for them.
type timeouts struct {
	call     time.Duration
	draining context.Context // done when the server begins to stop
	ended    context.Context
}

func (t timeouts) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c, ctx := callIn(ctx)
	bounded := &c.timeout
	bounded.Context, bounded.deadline = ctx, time.Now().Add(t.call)
	defer bounded.cancel()
	return handler(bounded, req)
}

// lazyTimeout is a context with a deadline that costs a timer only where somebody waits for it. Most calls merely ask
// whether it has passed.
type lazyTimeout struct {
	context.Context
	deadline time.Time

	mu     sync.Mutex
	ended  bool
	err    error           // once there is one, it stays
	waited context.Context // nil as long as nobody waits
	end    context.CancelFunc
}

// Deadline implements context.Context.
func (c *lazyTimeout) Deadline() (time.Time, bool) {
	if outer, ok := c.Context.Deadline(); ok && outer.Before(c.deadline) {
		return outer, true
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *lazyTimeout) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited == nil {
		c.waited, c.end = context.WithDeadline(c.Context, c.deadline)
		if c.ended {
			c.end()
		}
	}
	return c.waited.Done()
}

// Err implements context.Context.
func (c *lazyTimeout) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	switch {
	case c.waited != nil:
		c.err = c.waited.Err()
	case c.Context.Err() != nil:
		c.err = c.Context.Err()
	case c.ended:
		c.err = context.Canceled
	case !time.Now().Before(c.deadline):
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// Value implements context.Context. What package context asks for, so that contexts within end without a goroutine
// each, is known to the context that somebody waits for.
func (c *lazyTimeout) Value(key any) any {
	c.mu.Lock()
	within := c.waited
	c.mu.Unlock()
	if within == nil {
		within = c.Context
	}
	return within.Value(key)
}

func (c *lazyTimeout) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.end != nil {
		c.end()
	}
}

func (t timeouts) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	bounded := &boundedStream{ServerStream: ss, draining: t.draining}
	switch {
	case info.FullMethod == memoryv1.AdminService_Backup_FullMethodName:
		// It may take hours, as long as the client takes what is sent.
		bounded.message = streamAllowance * t.call
	case isOwn(info.FullMethod):
		ctx, cancel = context.WithTimeout(ctx, streamAllowance*t.call)
		defer cancel()
		bounded.message = t.call
	default:
		defer context.AfterFunc(t.ended, cancel)()
	}
	bounded.ctx = ctx
	return handler(srv, bounded)
}

// boundedStream is a stream whose messages are waited for no longer than its context lasts, and than patience while the
// server stops. gRPC itself would wait as long as the client likes.
type boundedStream struct {
	grpc.ServerStream
	ctx      context.Context
	message  time.Duration   // the longest that one message is waited for; 0 is as long as the context lasts
	draining context.Context // done when the server begins to stop
}

// Context implements grpc.ServerStream.
func (s *boundedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *boundedStream) RecvMsg(m any) error {
	err, late := s.await(func() error { return s.ServerStream.RecvMsg(m) })
	if late {
		return rpc.StatusError(err)
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *boundedStream) SendMsg(m any) error {
	err, late := s.await(func() error { return s.ServerStream.SendMsg(m) })
	if late {
		return rpc.LateStatusError(err) // What is to be sent may tell of a change.
	}
	return err
}

// await returns what fn does. When it is late it is left behind, and the error says why. The stream then ends with the
// call, and so does fn.
func (s *boundedStream) await(fn func() error) (err error, late bool) {
	ctx := s.ctx
	if s.message > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.message)
		defer cancel()
	}
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err, false
	case <-ctx.Done():
		return ctx.Err(), true
	case <-s.draining.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err, false
	case <-ctx.Done():
		return ctx.Err(), true
	case <-timer.C:
		return kv.ErrClosed, true // Callers are told that the service is stopping.
	}
}
