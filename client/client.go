package client

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const (
	// DefaultTarget is the address that memoryd listens on when told nothing.
	DefaultTarget = "127.0.0.1:7711"
	// DefaultNamespace is the namespace of requests and handlers that name none.
	DefaultNamespace = "default"
	// DefaultTimeout is the deadline of a call whose context has none; see WithTimeout.
	DefaultTimeout = 30 * time.Second
)

// Limits of one message in bytes. The server has the same.
const (
	maxRequestBytes  = 16 << 20
	maxResponseBytes = 64 << 20
)

// Client is a connection to memoryd. It is made by Dial and is safe for concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	memory  memoryv1.MemoryServiceClient
	files   memoryv1.FileServiceClient
	admin   memoryv1.AdminServiceClient
	timeout time.Duration // of a call without a deadline; 0 or less is none
	newID   func() string // makes request ids

	tokenFile   *tokenFile // nil: none
	retryBudget time.Duration
	timing      timing
	outage      outage
}

// Option is an option of Dial.
type Option func(*options)

type options struct {
	timeout     time.Duration
	retryBudget time.Duration
	dialOptions []grpc.DialOption

	transport func() (credentials.TransportCredentials, error) // nil: plain text
	authority string                                           // what the service is called; "": as the target says
	token     string                                           // "": none, or that of a file
	tokenFile *tokenFile                                       // nil: none
	tokenErr  error                                            // what is wrong with the token already
	plainText bool                                             // the token may go anywhere
}

// WithTimeout sets the deadline of calls whose context has none, which is DefaultTimeout otherwise. 0 or less is no
// deadline. It does not apply to Put and Get, whose pace is that of the reader or writer they are given.
func WithTimeout(d time.Duration) Option {
	return func(o *options) { o.timeout = d }
}

// WithRetryBudget sets how long a call is repeated, from its first failure on, where nothing can have been changed: the
// service cannot be reached, is busy or is stopping, or the call only reads. It is DefaultRetryBudget otherwise; 0 or
// less is one attempt. An outage uses it up once: while the service stays away, later calls fail after one attempt.
// A change whose answer was lost is repeated until the deadline whatever the budget, since only that tells what became
// of it; for DefaultTimeout where there is no deadline.
func WithRetryBudget(d time.Duration) Option {
	return func(o *options) { o.retryBudget = d }
}

// WithDialOptions adds options of gRPC, such as interceptors. They come after the package's own, so that they win:
// transport credentials among them replace those of WithTLS and WithTLSFiles.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dialOptions = append(o.dialOptions, opts...) }
}

// newRequestID makes a request id: the time in milliseconds, and what nobody else has. memoryd keeps the responses of
// ids that ascend next to each other, which costs its disk less than ids without any order.
func newRequestID() string { return fmt.Sprintf("%012x%s", time.Now().UnixMilli(), rand.Text()) }

// Dial makes a client of the memoryd at target, without waiting for the connection: that is made by the first call,
// and made again when it is lost. The target is "host:port", "unix:///path", "unix:path", or any other target whose
// scheme gRPC knows, such as "dns:///host:port"; empty is DefaultTarget. The connection is in plain text without
// WithTLS and WithTLSFiles.
func Dial(target string, opts ...Option) (*Client, error) {
	o := options{timeout: DefaultTimeout, retryBudget: DefaultRetryBudget}
	for _, opt := range opts {
		opt(&o)
	}
	if target == "" {
		target = DefaultTarget
	}
	target, err := parseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("dial memoryd: %w", err)
	}
	creds, err := o.credentials()
	if err != nil {
		return nil, fmt.Errorf("dial memoryd: %w", err)
	}
	conn, err := grpc.NewClient(target, slices.Concat(defaultDialOptions(), creds, o.dialOptions)...)
	if err != nil {
		return nil, fmt.Errorf("dial memoryd at %q: %w", target, err)
	}
	return &Client{
		conn:    conn,
		memory:  memoryv1.NewMemoryServiceClient(conn),
		files:   memoryv1.NewFileServiceClient(conn),
		admin:   memoryv1.NewAdminServiceClient(conn),
		timeout: o.timeout,
		newID:   newRequestID,

		tokenFile:   o.tokenFile,
		retryBudget: o.retryBudget,
		timing:      timing{now: time.Now, sleep: sleep, random: mathrand.Float64},
	}, nil
}

func defaultDialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(maxRequestBytes),
			grpc.MaxCallRecvMsgSize(maxResponseBytes),
		),
		// A connection that is dead without a sign is noticed within 20 seconds, so that a call with the default deadline
		// has time for an attempt on a new one, and also between calls. The server allows pings every 10 seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                15 * time.Second,
			Timeout:             5 * time.Second,
			PermitWithoutStream: true,
		}),
		// Attempts fail at once while gRPC waits to connect again, and its own default waits up to two minutes: too long
		// for a service that was merely restarted.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  100 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   longestPause,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		// HTTPS_PROXY is set for the model's API and the like. The memory, in plain text and close by, must not take
		// that way only because its address is no loopback one. Who needs a proxy brings grpc.WithContextDialer.
		grpc.WithNoProxy(),
		// Only this package repeats calls. gRPC would do it as a service config found in the DNS tells it, and silently
		// not for requests above 256 KiB. What it still repeats has surely not been looked at by the server.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(sentRecorder{}),
	}
}

// Close closes the connection. Calls that are under way, and all later ones, fail with the code CANCELLED.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// withDeadline gives ctx the deadline of the client unless it has one.
func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}
