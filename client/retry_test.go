package client

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// An outcome is what becomes of an attempt: whether the service gets the request, and the error in place of its answer.
type outcome struct {
	sent bool
	err  error
}

// script gives the attempts of every call their outcomes, the last one to all that are left.
func script(outcomes ...outcome) (opt Option, attempts *atomic.Int32) {
	attempts = new(atomic.Int32)
	return WithDialOptions(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		o := outcomes[min(int(attempts.Add(1)), len(outcomes))-1]
		if o.sent {
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
		}
		return o.err
	})), attempts
}

func retryInfo(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// What the model reads after an attempt of each kind and attempts of another kind until the call gives up.
func TestHandle_TruthOverAllAttempts(t *testing.T) {
	refused := outcome{false, status.Error(codes.Unavailable, "connection refused")}
	lost := outcome{true, status.Error(codes.Unavailable, "connection reset")}
	busy := outcome{true, serviceError(codes.Unavailable, "STORE_BUSY", true)}
	ambiguous := outcome{true, serviceError(codes.Unknown, "OUTCOME_UNKNOWN", false)}
	harmless := map[string][]outcome{
		"nothing": nil, "refused": {refused}, "busy": {busy}, "refused, busy": {refused, busy},
		"overloaded": {{true, serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryInfo(time.Second))}},
	}
	harmful := map[string][]outcome{
		"lost": {lost}, "ambiguous": {ambiguous}, "lost, refused": {lost, refused}, "refused, lost": {refused, lost},
		"reset":        {{true, status.Error(codes.Internal, "stream terminated by RST_STREAM")}},
		"cancelled":    {{true, status.Error(codes.Canceled, "stream terminated by RST_STREAM")}},
		"out of time":  {{true, status.Error(codes.DeadlineExceeded, "context deadline exceeded")}},
		"late, closed": {{true, serviceError(codes.Unavailable, "STORE_CLOSED", false)}},
	}
	done := Result{Content: textContent("done")}

	for _, tt := range []struct {
		name        string
		last        outcome
		view, write Result // after attempts that surely changed nothing
		afterLost   Result // of a write
	}{
		{"refused", refused, unreachable, unreachable, unknown},
		{"lost", lost, unreachable, unknown, unknown},
		{"busy", busy, problem, problem, unknown},
		{"ambiguous", ambiguous, problem, unknown, unknown},
		{
			"overloaded",
			outcome{true, serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryInfo(time.Second))},
			tooManyCalls(1), tooManyCalls(1), unknown,
		},
		{"read-only", outcome{true, serviceError(codes.FailedPrecondition, "STORE_READ_ONLY", true)}, readOnly, readOnly, unknown},
		{"full", outcome{true, serviceError(codes.ResourceExhausted, "STORE_FULL", true)}, problem, problem, unknown},
		{"denied", outcome{true, serviceError(codes.PermissionDenied, "PERMISSION_DENIED", true)}, notPermitted, notPermitted, unknown},
		{"invalid", outcome{true, serviceError(codes.InvalidArgument, "INVALID_REQUEST", true)}, problem, problem, unknown},
		{"internal", outcome{true, serviceError(codes.Internal, "INTERNAL", false)}, problem, unknown, unknown},
		{"internal, unchanged", outcome{true, serviceError(codes.Internal, "INTERNAL", true)}, problem, problem, unknown},
		{"local failure", outcome{false, status.Error(codes.Internal, "error while marshaling")}, problem, problem, unknown},
		// The id stands for another command, so it cannot stand for this one.
		{"reused", outcome{true, serviceError(codes.InvalidArgument, "REQUEST_ID_REUSED", true)}, reused, reused, reused},
		// An answer is the truth about the whole call: the service returns what it recorded.
		{"answered", outcome{sent: true}, done, done, done},
	} {
		check := func(t *testing.T, before []outcome, input string, want Result) {
			t.Helper()
			opt, _ := script(append(before[:len(before):len(before)], tt.last)...)
			c, _ := start(t, answer(textResponse("done"), nil), opt)
			var failed error
			h := c.Handler("", WithErrorFunc(func(err error) { failed = err }))
			checkResult(t, h.Handle(t.Context(), json.RawMessage(input)), want)
			if got, want := MayHaveBeenMade(failed), want.Reason == memoryv1.Reason_REASON_OUTCOME_UNKNOWN; got != want {
				t.Errorf("MayHaveBeenMade(%v) = %v, want %v", failed, got, want)
			}
		}
		for name, before := range harmless {
			t.Run(name+"; "+tt.name, func(t *testing.T) {
				check(t, before, viewInput, tt.view)
				check(t, before, createInput, tt.write)
			})
		}
		for name, before := range harmful {
			t.Run(name+"; "+tt.name, func(t *testing.T) {
				check(t, before, viewInput, tt.view)
				check(t, before, createInput, tt.afterLost)
			})
		}
	}
}

// An error that says that a change may have been made is still the status that came.
func TestMayHaveBeenMade_KeepsTheStatus(t *testing.T) {
	want := serviceError(codes.Unknown, "OUTCOME_UNKNOWN", false)
	opt, _ := script(outcome{true, want})
	c, _ := start(t, &fake{}, opt)
	_, err := c.Create(t.Context(), &memoryv1.CreateRequest{})
	if !MayHaveBeenMade(err) || !errors.Is(err, want) || Reason(err) != "OUTCOME_UNKNOWN" {
		t.Errorf("got %v, want %v of a change that may have been made", err, want)
	}
	if got := status.Convert(err); !proto.Equal(got.Proto(), status.Convert(want).Proto()) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	busy := outcome{true, serviceError(codes.Unavailable, "STORE_BUSY", true)}
	overloaded := func(d time.Duration) outcome {
		return outcome{true, serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryInfo(d))}
	}
	for _, tt := range []struct {
		name     string
		outcomes []outcome
		opts     []Option
		random   float64
		want     []time.Duration
		code     codes.Code
	}{
		{
			"doubling",
			[]outcome{busy, busy, busy, busy, busy, busy, busy, {sent: true}},
			nil, 1,
			[]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms},
			codes.OK,
		},
		{"full jitter", []outcome{busy, busy, busy, {sent: true}}, nil, 0.1, []time.Duration{5 * ms, 10 * ms, 20 * ms}, codes.OK},
		{
			"the budget ends within a pause",
			[]outcome{busy},
			[]Option{WithRetryBudget(200 * ms)},
			1,
			[]time.Duration{50 * ms, 100 * ms, 50 * ms},
			codes.Unavailable,
		},
		{
			"the deadline ends within a pause",
			[]outcome{busy},
			[]Option{WithRetryBudget(time.Hour), WithTimeout(5 * time.Second)},
			1,
			[]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms, 1000 * ms},
			codes.Unavailable,
		},
		{"no budget", []outcome{busy}, []Option{WithRetryBudget(0)}, 1, nil, codes.Unavailable},
		{"negative budget", []outcome{busy}, []Option{WithRetryBudget(-1)}, 1, nil, codes.Unavailable},
		{"as the service asks", []outcome{overloaded(3 * time.Second), {sent: true}}, nil, 1, []time.Duration{3050 * ms}, codes.OK},
		{"more than the budget", []outcome{overloaded(11 * time.Second)}, nil, 1, nil, codes.ResourceExhausted},
		{"negative delay", []outcome{overloaded(-time.Hour), {sent: true}}, nil, 1, []time.Duration{50 * ms}, codes.OK},
		{
			"more than the deadline",
			[]outcome{overloaded(3 * time.Second)},
			[]Option{WithTimeout(2 * time.Second)},
			1,
			nil, codes.ResourceExhausted,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt, _ := script(tt.outcomes...)
			c, _ := start(t, &fake{}, append(tt.opts, opt)...)
			clock := &fakeClock{time: time.Now()}
			c.timing = clock.timing()
			c.timing.random = func() float64 { return tt.random }
			_, err := c.Create(t.Context(), &memoryv1.CreateRequest{})
			if got := status.Code(err); got != tt.code {
				t.Errorf("got %v, want code %v", err, tt.code)
			}
			if diff := cmp.Diff(tt.want, clock.slept()); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing is repeated that would only fail again, or that nobody waits for.
func TestNoSecondAttempt(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    outcome
	}{
		{"invalid", outcome{true, serviceError(codes.InvalidArgument, "INVALID_REQUEST", true)}},
		{"reused", outcome{true, serviceError(codes.InvalidArgument, "REQUEST_ID_REUSED", true)}},
		{"full", outcome{true, serviceError(codes.ResourceExhausted, "STORE_FULL", true)}},
		{"read-only", outcome{true, serviceError(codes.FailedPrecondition, "STORE_READ_ONLY", true)}},
		{"corrupt", outcome{true, serviceError(codes.DataLoss, "STORE_CORRUPT", false)}},
		{"internal", outcome{true, serviceError(codes.Internal, "INTERNAL", false)}},
		{"not found", outcome{true, serviceError(codes.NotFound, "NAMESPACE_NOT_FOUND", true)}},
		{"denied", outcome{true, status.Error(codes.PermissionDenied, "403")}},
		{"not memoryd", outcome{true, status.Error(codes.Unimplemented, "unknown service")}},
		{"too large", outcome{false, status.Error(codes.ResourceExhausted, "trying to send message larger than max")}},
		{"not marshalled", outcome{false, status.Error(codes.Internal, "error while marshaling")}},
		{"no credentials", outcome{false, status.Error(codes.Unauthenticated, "no token")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt, attempts := script(tt.o)
			c, _ := start(t, &fake{}, opt)
			if _, err := c.Create(t.Context(), &memoryv1.CreateRequest{}); !errors.Is(err, tt.o.err) {
				t.Errorf("got %v, want %v", err, tt.o.err)
			}
			if got := attempts.Load(); got != 1 {
				t.Errorf("got %d attempts, want 1", got)
			}
		})
	}
}

func TestDeleteNamespace_Repeated(t *testing.T) {
	lost := outcome{true, status.Error(codes.Unavailable, "connection reset")}
	busy := outcome{true, serviceError(codes.Unavailable, "STORE_BUSY", true)}
	missing := outcome{true, serviceError(codes.NotFound, "NAMESPACE_NOT_FOUND", true)}
	for _, tt := range []struct {
		name     string
		outcomes []outcome
		want     codes.Code
	}{
		{"found", []outcome{{sent: true}}, codes.OK},
		{"missing", []outcome{missing}, codes.NotFound},
		{"missing after it was busy", []outcome{busy, missing}, codes.NotFound},
		{"missing after the answer was lost", []outcome{lost, missing}, codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt, _ := script(tt.outcomes...)
			c, _ := start(t, &fake{}, opt)
			resp, err := c.DeleteNamespace(t.Context(), &memoryv1.DeleteNamespaceRequest{})
			if status.Code(err) != tt.want || (resp == nil) != (err != nil) {
				t.Errorf("got %v, %v, want code %v", resp, err, tt.want)
			}
		})
	}
}

// network is a network in memory, so that time can be that of a synctest bubble.
type network struct {
	listener atomic.Pointer[bufconn.Listener] // nil: connections are refused
	wrap     func(net.Conn) net.Conn          // what becomes of a connection, nil for nothing
}

func (n *network) dial(ctx context.Context, _ string) (net.Conn, error) {
	l := n.listener.Load()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	c, err := l.DialContext(ctx)
	if err != nil || n.wrap == nil {
		return c, err
	}
	return n.wrap(c), nil
}

// start serves f where clients look for it.
func (n *network) start(t *testing.T, f *fake, opts ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	s := serve(t, l, f, opts...)
	n.listener.Store(l)
	return s
}

func (n *network) client(t *testing.T, opts ...Option) *Client {
	t.Helper()
	c := dial(t, "passthrough:///memoryd", append(opts, WithDialOptions(grpc.WithContextDialer(n.dial)))...)
	random := c.timing.random
	c.timing = timing{now: time.Now, sleep: sleep, random: random}
	return c
}

// blackHole takes everything and lets nothing through, in one direction or both, without a sign.
type blackHole struct {
	net.Conn
	requests, answers bool // which ones vanish
}

func (c blackHole) Write(p []byte) (int, error) {
	if c.requests {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c blackHole) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.answers {
			return n, err
		}
	}
}

// sickConn is a connection that becomes a black hole once the request is on its way.
type sickConn struct {
	net.Conn
	sick atomic.Pointer[blackHole]
}

func (c *sickConn) Write(p []byte) (int, error) {
	if h := c.sick.Load(); h != nil {
		return h.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *sickConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if h := c.sick.Load(); h != nil && err == nil && h.answers {
		return h.Read(p)
	}
	return n, err
}

func TestBlackHole(t *testing.T) {
	for _, tt := range []struct {
		name     string
		hole     blackHole
		all      bool // connections are holes, not only the first
		timeout  time.Duration
		want     Result
		min, max time.Duration
		effects  int
	}{
		{
			name: "requests vanish", hole: blackHole{requests: true}, timeout: DefaultTimeout,
			want: Result{Content: textContent("done")}, min: 15 * time.Second, max: 25 * time.Second, effects: 1,
		},
		{
			name: "answers vanish", hole: blackHole{answers: true}, timeout: DefaultTimeout,
			want: Result{Content: textContent("done")}, min: 15 * time.Second, max: 25 * time.Second, effects: 1,
		},
		{
			name: "for ever", hole: blackHole{answers: true}, all: true, timeout: DefaultTimeout,
			want: unknown, min: 29 * time.Second, max: 30 * time.Second, effects: 1,
		},
		{
			name: "short deadline", hole: blackHole{requests: true}, timeout: 2 * time.Second,
			want: unknown, min: 2 * time.Second, max: 2 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEffects()
				var first *sickConn
				n := &network{wrap: func(c net.Conn) net.Conn {
					sick := &sickConn{Conn: c}
					if first == nil {
						first = sick
					} else if tt.all {
						sick.sick.Store(&blackHole{Conn: c, requests: tt.hole.requests, answers: tt.hole.answers})
					}
					return sick
				}}
				n.start(t, e.fake())
				c := n.client(t, WithTimeout(tt.timeout))
				h := c.Handler("")
				checkResult(t, h.Handle(t.Context(), json.RawMessage(viewInput)), Result{Content: textContent("done")})
				first.sick.Store(&blackHole{Conn: first.Conn, requests: tt.hole.requests, answers: tt.hole.answers})

				began := time.Now()
				checkResult(t, h.Handle(t.Context(), json.RawMessage(createInput)), tt.want)
				if took := time.Since(began); took < tt.min || took > tt.max {
					t.Errorf("took %v, want %v to %v", took, tt.min, tt.max)
				}
				if got := e.count(); got != tt.effects {
					t.Errorf("got %d effects, want %d", got, tt.effects)
				}
			})
		})
	}
}

// Only the first calls wait for a service that is away; those after them fail at once, until it is back.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		c := n.client(t)
		h := c.Handler("")
		took := func(want Result) time.Duration {
			t.Helper()
			began := time.Now()
			checkResult(t, h.Handle(t.Context(), json.RawMessage(viewInput)), want)
			return time.Since(began)
		}
		if got := took(unreachable); got != DefaultRetryBudget {
			t.Errorf("the first call took %v, want the whole budget of %v", got, DefaultRetryBudget)
		}
		for range 3 {
			time.Sleep(20 * time.Second) // the model thinks
			if got := took(unreachable); got != 0 {
				t.Errorf("a later call took %v, want none", got)
			}
		}

		// The service comes back and goes again before anybody has called it.
		s := n.start(t, &fake{})
		time.Sleep(2 * time.Second) // by then gRPC has tried to connect
		n.listener.Store(nil)
		s.Stop()
		time.Sleep(time.Second) // by then gRPC has let go of the connection
		if got := took(unreachable); got != DefaultRetryBudget {
			t.Errorf("the first call of the second outage took %v, want the whole budget of %v", got, DefaultRetryBudget)
		}

		done := Result{Content: textContent("done")}
		var err error
		s = n.start(t, &fake{
			execute: func(context.Context, *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
				failure := err
				err = nil
				return textResponse("done"), failure
			},
		})
		time.Sleep(2 * time.Second)
		err = status.Error(codes.Unavailable, "503")
		if got := took(done); got > time.Second {
			t.Errorf("after the service came back a failed attempt took %v, want a second one soon", got)
		}
		if got := took(done); got != 0 {
			t.Errorf("a call of a service that is well took %v, want none", got)
		}

		// A third outage, after calls that were answered.
		n.listener.Store(nil)
		s.Stop()
		if got := took(unreachable); got != DefaultRetryBudget {
			t.Errorf("the first call of the third outage took %v, want the whole budget of %v", got, DefaultRetryBudget)
		}
	})
}

// Any answer of the service ends an outage, and what the caller does begins none.
func TestOutage_BeginAndEnd(t *testing.T) {
	c, _ := start(t, &fake{})
	a := c.newAttempts(&memoryv1.ViewRequest{})
	began := c.outage.start(time.Now())
	if got := c.outage.start(time.Now().Add(time.Hour)); got != began {
		t.Errorf("the outage began at %v, want %v", got, began)
	}
	a.again(t.Context(), serviceError(codes.Unavailable, "STORE_BUSY", true))
	if !c.outage.since.IsZero() {
		t.Error("the service has answered, and the outage goes on")
	}
	a.sent.set()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if a.again(cancelled, status.FromContextError(cancelled.Err()).Err()) || !c.outage.since.IsZero() {
		t.Error("a call that was cancelled is an outage")
	}
}

// One attempt of which nothing is heard does not use up the time of the others.
func TestAttemptTimeout(t *testing.T) {
	for _, tt := range []struct {
		timeout, want time.Duration
		result        Result
	}{
		{DefaultTimeout, 10 * time.Second, Result{Content: textContent("done")}},
		{9 * time.Second, 5 * time.Second, Result{Content: textContent("done")}},
		{4 * time.Second, 4 * time.Second, unknown},
	} {
		t.Run(tt.timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				n := &network{}
				n.start(t, &fake{
					execute: func(ctx context.Context, _ *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
						if attempts.Add(1) == 1 {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return textResponse("done"), nil
					},
				})
				h := n.client(t, WithTimeout(tt.timeout)).Handler("")
				began := time.Now()
				checkResult(t, h.Handle(t.Context(), json.RawMessage(createInput)), tt.result)
				if took := time.Since(began); took < tt.want || took > tt.want+time.Second {
					t.Errorf("took %v, want %v and a short pause", took, tt.want)
				}
			})
		})
	}
}

// A restart of a few seconds is ridden over, whatever it is that a call first runs into.
func TestRestart(t *testing.T) {
	for _, first := range []string{"refused", "stopping"} {
		t.Run(first, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{}
				if first == "stopping" {
					s := n.start(t, answer(nil, serviceError(codes.Unavailable, "STORE_CLOSED", true)))
					time.AfterFunc(time.Second, func() {
						n.listener.Store(nil)
						s.GracefulStop()
					})
				}
				const back = 4 * time.Second
				time.AfterFunc(back, func() { n.start(t, answer(textResponse("done"), nil)) })

				began := time.Now()
				got := n.client(t).Handler("").Handle(t.Context(), json.RawMessage(createInput))
				checkResult(t, got, Result{Content: textContent("done")})
				if took := time.Since(began); took < back || took > back+3*time.Second {
					t.Errorf("took %v, want the %v until the service is back, and little more", took, back)
				}
			})
		})
	}
}

func TestCancelInAPause(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opt, _ := script(outcome{lost, status.Error(codes.Unavailable, "connection lost")})
			n := &network{}
			n.start(t, answer(textResponse("done"), nil))
			c := n.client(t, opt)
			c.timing.random = func() float64 { return 1 }
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(400*time.Millisecond, cancel) // within the fourth pause
			began := time.Now()
			_, err := c.Create(ctx, &memoryv1.CreateRequest{})
			if status.Code(err) != codes.Canceled || MayHaveBeenMade(err) != lost {
				t.Errorf("got %v, may have been made: %v; want a cancelled call, %v", err, MayHaveBeenMade(err), lost)
			}
			if took := time.Since(began); took != 400*time.Millisecond {
				t.Errorf("took %v, want it to end with the context", took)
			}
		})
	}
}

// A lost change is repeated until the deadline, whatever the budget, and for the default timeout without a deadline.
func TestLostChange_UntilTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		timeout  time.Duration
		min, max time.Duration
	}{
		{"deadline", 12 * time.Second, 11 * time.Second, 12 * time.Second},
		{"no deadline", 0, DefaultTimeout, DefaultTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := outcome{true, status.Error(codes.Unavailable, "connection reset")}
				opt, _ := script(lost, outcome{false, status.Error(codes.Unavailable, "connection refused")})
				n := &network{}
				n.start(t, &fake{})
				c := n.client(t, opt, WithRetryBudget(0), WithTimeout(tt.timeout))
				began := time.Now()
				_, err := c.Create(t.Context(), &memoryv1.CreateRequest{})
				if status.Code(err) != codes.Unavailable || !MayHaveBeenMade(err) {
					t.Errorf("got %v, want the last failure of a change that may have been made", err)
				}
				if took := time.Since(began); took < tt.min || took > tt.max {
					t.Errorf("took %v, want %v to %v", took, tt.min, tt.max)
				}
			})
		})
	}
}
