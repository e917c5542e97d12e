package ops

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// calls counts and times calls, under the names that go-grpc-prometheus has given to that and that dashboards know. The
// metrics of a method are looked up once and not for every call, where that took more than all else about metrics.
type calls struct {
	started, handled, received, sent *prometheus.CounterVec
	seconds                          *prometheus.HistogramVec
	methods                          sync.Map // of *methodCalls, by the full name
}

func newCalls(registry prometheus.Registerer) *calls {
	auto := promauto.With(registry)
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counters := func(name, help string, more ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels[:3:3], more...))
	}
	return &calls{
		started: counters("grpc_server_started_total", "Total number of RPCs started on the server."),
		handled: counters("grpc_server_handled_total",
			"Total number of RPCs completed on the server, regardless of success or failure.", "grpc_code"),
		received: counters("grpc_server_msg_received_total",
			"Total number of RPC stream messages received on the server."),
		sent: counters("grpc_server_msg_sent_total",
			"Total number of gRPC stream messages sent by the server."),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds",
			Help: "Histogram of response latency (seconds) of gRPC that had been application-level handled by the " +
				"server.",
			Buckets: handlingBuckets,
		}, labels),
	}
}

// methodCalls are the metrics of one method. They are at 0 from the first time on.
type methodCalls struct {
	started, received, sent prometheus.Counter
	handled                 [codes.Unauthenticated + 1]prometheus.Counter // by the code
	seconds                 prometheus.Observer
}

// of returns the metrics of a method.
func (c *calls) of(fullMethod, kind string) *methodCalls {
	if m, ok := c.methods.Load(fullMethod); ok {
		return m.(*methodCalls)
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	m := &methodCalls{
		started:  c.started.WithLabelValues(kind, service, method),
		received: c.received.WithLabelValues(kind, service, method),
		sent:     c.sent.WithLabelValues(kind, service, method),
		seconds:  c.seconds.WithLabelValues(kind, service, method),
	}
	for code := range m.handled {
		m.handled[code] = c.handled.WithLabelValues(kind, service, method, codes.Code(code).String())
	}
	known, _ := c.methods.LoadOrStore(fullMethod, m)
	return known.(*methodCalls)
}

// ended counts a call that has ended.
func (m *methodCalls) ended(err error, took time.Duration) {
	code := codeOf(err)
	if int(code) >= len(m.handled) { // It is none of gRPC's.
		code = codes.Unknown
	}
	m.handled[code].Inc()
	m.seconds.Observe(took.Seconds())
}

// codeOf returns the code that gRPC answers with.
func codeOf(err error) codes.Code {
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return status.FromContextError(err).Code()
}

// Kinds of methods, as the label grpc_type has them.
const (
	kindUnary        = "unary"
	kindClientStream = "client_stream"
	kindServerStream = "server_stream"
	kindBidiStream   = "bidi_stream"
)

func kindOf(clientStream, serverStream bool) string {
	switch {
	case clientStream && serverStream:
		return kindBidiStream
	case clientStream:
		return kindClientStream
	case serverStream:
		return kindServerStream
	default:
		return kindUnary
	}
}

// Unary returns the interceptor that counts and times unary calls.
func (m *Metrics) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		began := time.Now()
		method := m.calls.of(info.FullMethod, kindUnary)
		method.started.Inc()
		method.received.Inc()
		resp, err := handler(ctx, req)
		method.ended(err, time.Since(began))
		if err == nil {
			method.sent.Inc()
		}
		return resp, err
	}
}

// Stream returns the interceptor that counts and times streams.
func (m *Metrics) Stream() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		began := time.Now()
		method := m.calls.of(info.FullMethod, kindOf(info.IsClientStream, info.IsServerStream))
		method.started.Inc()
		err := handler(srv, countedStream{ss, method})
		method.ended(err, time.Since(began))
		return err
	}
}

// countedStream is a stream whose messages are counted.
type countedStream struct {
	grpc.ServerStream
	method *methodCalls
}

// RecvMsg implements grpc.ServerStream.
func (s countedStream) RecvMsg(msg any) error {
	err := s.ServerStream.RecvMsg(msg)
	if err == nil {
		s.method.received.Inc()
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s countedStream) SendMsg(msg any) error {
	err := s.ServerStream.SendMsg(msg)
	if err == nil {
		s.method.sent.Inc()
	}
	return err
}

// Initialize makes the metrics of every method of a server start at 0, so that rates are right from the first call on.
func (m *Metrics) Initialize(server reflection.ServiceInfoProvider) {
	for service, info := range server.GetServiceInfo() {
		for _, method := range info.Methods {
			m.calls.of("/"+service+"/"+method.Name, kindOf(method.IsClientStream, method.IsServerStream))
		}
	}
}
