package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// DefaultRetryBudget is how long a call is repeated while nothing is at stake; see WithRetryBudget. A service that is
// restarted is back by then.
const DefaultRetryBudget = 10 * time.Second

// The pauses between the attempts of a call are random, between 0 and a limit that begins at firstPause and doubles up
// to longestPause ("full jitter"), so that the clients of a service that comes back do not all call at once.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// An attempt may take a third of the time that the call has left, so that there is time for another where its answer
// is lost without a sign, but never less than shortestAttempt: a slow command must not be taken for a lost one. A call
// with a deadline below that has one attempt, unless that fails sooner.
const (
	attemptShare    = 3
	shortestAttempt = 5 * time.Second
)

// timing is what the retries need of the world.
type timing struct {
	now    func() time.Time
	sleep  func(ctx context.Context, d time.Duration) error // until d is over or ctx is done, whose error it returns
	random func() float64                                   // in [0,1)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outage remembers since when the service does not answer at all, so that only the first calls wait for it, and those
// after them fail at once.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: there is none
}

// start returns when the outage began, which is now unless there is one already.
func (o *outage) start(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = now
	}
	return o.since
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = time.Time{}
}

// attempts is one call over all its attempts.
type attempts struct {
	client *Client
	req    proto.Message

	token    string // what the token file held when the call began
	renewed  bool   // there was an attempt with a token that has replaced it
	failures int
	since    time.Time // of the first failure
	lost     bool      // an attempt before this one may have made the change
	sent     *sent     // of this attempt
}

func (c *Client) newAttempts(req proto.Message) *attempts {
	switch c.conn.GetState() {
	case connectivity.Ready, connectivity.Idle:
		c.outage.end() // the service came back, or nobody has looked for a long time
	default:
	}
	a := &attempts{client: c, req: req, sent: new(sent)}
	if c.tokenFile != nil {
		a.token, _ = c.tokenFile.token() // Where there is none the attempt fails and tells why.
	}
	return a
}

// changes tells whether the call is one that changes something: it has a request id then.
func (a *attempts) changes() bool {
	if execute, ok := a.req.(*memoryv1.ExecuteRequest); ok {
		return !readInput([]byte(execute.GetInput())).view()
	}
	return a.req.ProtoReflect().Descriptor().Fields().ByName("request_id") != nil
}

// next returns the context of the next attempt, and its timeout within the deadline of ctx.
func (a *attempts) next(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, a.sent = withSent(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {} // a connection that is dead is noticed by keepalive
	}
	left := deadline.Sub(a.client.timing.now())
	if timeout := max(shortestAttempt, left/attemptShare); timeout < left {
		return context.WithTimeout(ctx, timeout)
	}
	return ctx, func() {}
}

// mayBeMade tells whether the change may have been made by an attempt before this one, or by this one if nothing more
// comes of it.
func (a *attempts) mayBeMade() bool { return a.lost || a.sent.get() && a.changes() }

// succeeded notes that the service has answered.
func (a *attempts) succeeded() { a.client.outage.end() }

// again tells whether the call, whose attempt failed with err, is to be tried again, after a pause that is over when it
// returns.
func (a *attempts) again(ctx context.Context, err error) bool {
	st := status.Convert(err)
	if ctx.Err() == nil && a.renew(st) {
		return true
	}
	if ctx.Err() != nil || !retryable(st, a.sent.get()) {
		return false
	}
	a.lost = a.lost || a.doubtful(st)
	now := a.client.timing.now()
	if a.failures == 0 {
		a.since = now
	}
	a.failures++
	left := a.limit(st, now).Sub(now)
	delay, _ := retryDelay(st) // 0 where the service asks for none
	pause := max(0, delay) + time.Duration(a.client.timing.random()*float64(longest(a.failures)))
	if deadline, ok := ctx.Deadline(); ok && (a.lost || deadline.Sub(now) < left) {
		left = deadline.Sub(now)
		delay = pause // an attempt at the very deadline is none
	}
	if left <= 0 || delay >= left {
		return false
	}
	return a.client.timing.sleep(ctx, min(pause, left)) == nil && ctx.Err() == nil
}

// renew tells whether the service, or whoever stands in front of it, may have refused a token that was replaced since
// the call began, or was read while its file was being written. Then the call was not made, and another token is there.
func (a *attempts) renew(st *status.Status) bool {
	if a.renewed || st.Code() != codes.Unauthenticated || !a.client.tokenFile.replaced(a.token) {
		return false
	}
	a.renewed = true
	return true
}

// limit returns when the last attempt of the call may begin, unless its deadline is sooner. Where nothing is at stake,
// that is when the retry budget is used up, and of an outage when the calls before this one have used it up. Where the
// change may have been made, it is worth all the time until the deadline to find out.
func (a *attempts) limit(st *status.Status, now time.Time) time.Time {
	since := a.since
	if errorInfo(st) != nil {
		a.client.outage.end()
	} else {
		since = a.client.outage.start(now)
	}
	if a.lost {
		return a.since.Add(DefaultTimeout) // where there is no deadline
	}
	return since.Add(a.client.retryBudget)
}

// longest returns the longest pause after so many failures in a row.
func longest(failures int) time.Duration {
	d := firstPause
	for range failures - 1 {
		if d *= 2; d >= longestPause {
			return longestPause
		}
	}
	return d
}

// doubtful tells whether the attempt that was answered with st may have made the change.
func (a *attempts) doubtful(st *status.Status) bool {
	return a.sent.get() && !surelyUnchanged(st) && a.changes()
}

// refused returns an error where the response says that there were too many calls, and an attempt before it may have
// made the change: the response would be read as if nothing had been changed. To ask again tells.
func (a *attempts) refused(resp proto.Message) error {
	r, ok := resp.(interface{ GetResult() *memoryv1.ToolResult })
	if !ok || !a.lost || r.GetResult().GetReason() != memoryv1.Reason_REASON_TOO_MANY_CALLS {
		return nil
	}
	st, err := status.New(codes.ResourceExhausted, "too many calls on the namespace").WithDetails(
		&errdetails.ErrorInfo{
			Reason: "TOO_MANY_CALLS", Domain: errorDomain, Metadata: map[string]string{"nothing_changed": "true"},
		},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
	)
	if err != nil { // Only for a code of OK.
		return err
	}
	return st.Err()
}

// failed returns the error of the call, whose last attempt failed with err.
func (a *attempts) failed(ctx context.Context, err error) error {
	st := status.Convert(err)
	// Had an attempt made the change, its id would stand for it and not for another command.
	unsure := a.lost && Reason(err) != reasonRequestIDReused || a.doubtful(st)
	if errors.Is(ctx.Err(), context.Canceled) && errorInfo(st) == nil {
		err = status.FromContextError(ctx.Err()).Err() // it may have come in a pause
	}
	err = identified(err)
	if unsure {
		return &unsureError{err}
	}
	return err
}

// retryable tells whether an attempt that failed with st is worth another. Changes too: they carry a request id.
func retryable(st *status.Status, sent bool) bool {
	if info := errorInfo(st); info != nil {
		switch st.Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled: // the call itself is not at its end
			return true
		case codes.Unknown: // only for a change whose answer the service itself has lost
			return info.GetReason() == reasonOutcomeUnknown
		case codes.ResourceExhausted:
			_, ok := retryDelay(st)
			return ok
		default:
			return false
		}
	}
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.Unknown, codes.Internal, codes.Canceled: // what a stream that was reset can look like
		return sent
	default:
		return false
	}
}

// surelyUnchanged tells whether a request that was answered with st has changed nothing. Only a status with memoryd's
// ErrorInfo is the word of the service. Any other was made on the way and says nothing about the change, except that
// gRPC answers UNIMPLEMENTED before any handler, and that whoever refuses a caller does so before the service acts.
func surelyUnchanged(st *status.Status) bool {
	info := errorInfo(st)
	switch st.Code() {
	case codes.PermissionDenied, codes.Unauthenticated:
		return true
	case codes.Unimplemented:
		if info == nil {
			return true
		}
	default:
	}
	return info.GetMetadata()["nothing_changed"] == "true"
}
