package claudetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

// The beta headers that parts of a request need, as in Request.Betas and Recorded.Betas.
const (
	BetaContextManagement = anthropic.AnthropicBetaContextManagement2025_06_27 // context_management
	BetaCompactEdit       = anthropic.AnthropicBetaCompact2026_01_12           // the edit compact_20260112
	BetaCompaction        = anthropic.AnthropicBetaCompact2026_09_04           // compaction
	BetaThreads           = anthropic.AnthropicBetaMessageThreads2026_08_12    // thread
	BetaInlineTools       = anthropic.AnthropicBetaInlineTools2026_09_15       // changes of tools
)

// TB is what New needs of a testing.TB. Fatalf must not return.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(fn func())
}

// API is a Messages API on a loopback port. It is made by Start or New and is safe for concurrent use.
type API struct {
	model    Model
	options  options
	report   func(format string, args ...any) // of mistakes of the test
	listener net.Listener
	server   *http.Server
	client   *http.Client
	running  sync.WaitGroup // the server and its requests

	mu       sync.Mutex
	closed   bool
	recorded []*Recorded
	planned  []Failure
	allowed  int // requests until the rate limit, if there is one
	messages int // ids given
	toolUses int // ids given
	paused   map[saidBlock]bool
	threads  map[string]*thread // by the id of the last response
}

// Start serves a Messages API in the place of Claude until Close. It is for programs; tests use New. It fails only
// where there is no loopback port to listen on.
func Start(model Model, opts ...Option) (*API, error) {
	return start(model, func(string, ...any) {}, opts)
}

// New is Start for tests: the API is closed at the end of the test, and where Start fails the test ends with Fatalf.
// What only a mistake in the test can cause is reported with Errorf: a request that a script has no turn for, turns of
// a script that were never asked for, a model or token counter that panics, a model that returns an error, or calls a
// tool that the request does not offer, a Failure that is none.
func New(tb TB, model Model, opts ...Option) *API {
	tb.Helper()
	a, err := start(model, tb.Errorf, opts)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		a.Close()
		if s, ok := model.(*Scripted); ok && s.Remaining() > 0 {
			tb.Errorf("claudetest: %d turns of the script were never asked for", s.Remaining())
		}
	})
	return a
}

func start(model Model, report func(format string, args ...any), opts []Option) (*API, error) {
	o := newOptions(opts)
	listener, err := o.listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("claudetest: %w", err)
	}
	a := &API{
		model:    model,
		options:  o,
		report:   report,
		listener: listener,
		client:   &http.Client{Transport: &http.Transport{}},
		paused:   map[saidBlock]bool{},
		threads:  map[string]*thread{},
	}
	a.allowed = o.rateLimit
	a.server = &http.Server{Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: readHeaderTimeout}
	a.running.Go(func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.report("claudetest: serve: %v", err)
		}
	})
	return a, nil
}

// Close stops the API: it cancels the contexts of the requests that the model is at, closes all connections and waits
// for the model. A second Close only waits. Called by a model, in its Respond, Close does not wait, which would be for
// itself.
func (a *API) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	_ = a.server.Close() // an error is that of the listener, which is closed all the same
	if !inModel() {
		a.running.Wait()
	}
	a.client.CloseIdleConnections()
}

// askFunction is the name of API.ask.
var askFunction = runtime.FuncForPC(reflect.ValueOf((*API).ask).Pointer()).Name()

// inModel tells whether a model is what called: whether an API is asking on this goroutine.
func inModel() bool {
	for pcs, skip := make([]uintptr, 64), 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == askFunction {
				return true
			}
		}
	}
}

func (a *API) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// begin counts a request, unless the API is closed.
func (a *API) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.running.Add(1)
	}
	return !a.closed
}

// URL returns the base URL, e.g. "http://127.0.0.1:40123".
func (a *API) URL() string { return "http://" + a.listener.Addr().String() }

// ClientOptions returns what makes a client of the SDK one of this API: the base URL, a key, no retries, and an HTTP
// client whose connections end with the API. Options that follow them win, e.g. option.WithMaxRetries.
func (a *API) ClientOptions() []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL(a.URL()),
		option.WithAPIKey("claudetest"),
		option.WithMaxRetries(0),
		option.WithHTTPClient(a.client),
	}
}

// Client returns a client with ClientOptions.
func (a *API) Client() anthropic.Client { return anthropic.NewClient(a.ClientOptions()...) }

// ask asks the model. A panic of it is an error.
func (a *API) ask(ctx context.Context, req *Request) (t Turn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the model panicked: %v", p)
		}
	}()
	return a.model.Respond(ctx, req)
}

// FailNext lets the next n requests fail, after those that were to fail already. They reach neither the model nor the
// rate limit, and it does not matter what is in them. A negative n is a mistake of the test; it is like 0.
func (a *API) FailNext(n int, failure Failure) {
	if n < 0 {
		a.report("claudetest: FailNext(%d, ...): the number of requests must not be negative", n)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.planned = append(a.planned, slices.Repeat([]Failure{failure}, n)...)
}

// takePlanned returns the failure that the next request is to have, or nil.
func (a *API) takePlanned() *Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.planned) == 0 {
		return nil
	}
	f := a.planned[0]
	a.planned = a.planned[1:]
	return &f
}

// AllowMore lets n more requests through the limit of WithRateLimit.
func (a *API) AllowMore(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed += n
}

// allow counts a request against the rate limit.
func (a *API) allow() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.options.limited {
		return true
	}
	if a.allowed <= 0 {
		return false
	}
	a.allowed--
	return true
}

// ForgetThreads drops all message threads, as if they had expired: a request that continues one gets ThreadNotFound.
func (a *API) ForgetThreads() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.threads)
}
