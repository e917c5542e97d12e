package claudetest

import (
	"net"
	"time"
)

// DefaultWarnAt is the part of the trigger of an edit at which the model is warned.
const DefaultWarnAt = 0.8

// rateLimitRetryAfter is what a request over the limit of WithRateLimit is told to wait.
const rateLimitRetryAfter = time.Second

// Option is an option of Start and New.
type Option func(*options)

type options struct {
	limited     bool
	rateLimit   int
	count       counter
	warnAt      float64
	noBodies    bool
	idPrefix    string
	noThreads   bool
	unsupported []string
	listen      func(network, address string) (net.Listener, error)
}

func newOptions(opts []Option) options {
	o := options{count: EstimateTokens, warnAt: DefaultWarnAt, listen: net.Listen}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithRateLimit answers with RateLimited after so many requests, until API.AllowMore. There is no clock in it.
func WithRateLimit(requests int) Option {
	return func(o *options) { o.limited, o.rateLimit = true, requests }
}

// WithTokenCounter counts tokens with a function instead of EstimateTokens. It may be called by several goroutines at
// once, and must return the same number for the same text, at least 0.
func WithTokenCounter(count func(text string) int) Option {
	return func(o *options) { o.count = counter(count).checked() }
}

// WithWarnAt sets the part of a trigger of input tokens at which the model is warned that results are going to be
// cleared: see Request.Warning. 0 turns warnings off. DefaultWarnAt is the default.
func WithWarnAt(fraction float64) Option {
	return func(o *options) { o.warnAt = fraction }
}

// WithoutBodies records requests without their bodies, for runs that are too long to keep them all in memory.
func WithoutBodies() Option {
	return func(o *options) { o.noBodies = true }
}

// WithIDPrefix makes ids such as "toolu_" + prefix + "1". Without it every API counts from toolu_1, in every process,
// and what goes by the ids of tool calls, as memoryd does, takes the calls of a later API for those of an earlier one.
// Where several APIs play one session of an agent, give each a prefix of its own, such as crypto/rand.Text(): see the
// documentation of the package.
func WithIDPrefix(prefix string) Option {
	return func(o *options) { o.idPrefix = prefix }
}

// WithoutThreads answers every request that has a thread with ThreadUnsupported, which names the features. The SDK's
// tool runners then send the whole conversation with every request.
func WithoutThreads(features ...string) Option {
	return func(o *options) { o.noThreads, o.unsupported = true, features }
}
