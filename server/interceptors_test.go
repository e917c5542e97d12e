package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// newChained returns a server that has only what its chain needs.
func newChained(logger *slog.Logger) *Server {
	never := context.Background()
	cfg := Config{MaxConcurrentCalls: 1}.withDefaults()
	return &Server{
		cfg:      cfg,
		logger:   logger,
		metrics:  ops.NewMetrics("test"),
		arrivals: &arrivals{draining: never},
		conns:    newConnections(1, remoteAddress, logger),
		limits:   newLimiter(cfg.MaxConcurrentCalls, cfg.MaxConcurrentBytes),
		draining: never,
		ended:    never,
	}
}

// handler is what a chain is around, for both kinds of calls.
type handler func(ctx context.Context) error

// calls are the ways in which a handler is called through a chain.
var calls = map[string]func(ctx context.Context, chain []interceptor, h handler) error{
	memoryv1.MemoryService_View_FullMethodName: func(ctx context.Context, chain []interceptor, h handler) error {
		next := func(ctx context.Context, _ any) (any, error) { return nil, h(ctx) }
		info := &grpc.UnaryServerInfo{FullMethod: memoryv1.MemoryService_View_FullMethodName}
		for i := len(chain) - 1; i >= 0; i-- {
			inner, layer := next, chain[i].unary
			next = func(ctx context.Context, req any) (any, error) { return layer(ctx, req, info, inner) }
		}
		_, err := next(ctx, &memoryv1.ViewRequest{Namespace: "n"})
		return err
	},
	memoryv1.FileService_Get_FullMethodName: func(ctx context.Context, chain []interceptor, h handler) error {
		next := func(_ any, ss grpc.ServerStream) error {
			if err := ss.RecvMsg(&memoryv1.GetRequest{}); err != nil {
				return err
			}
			return h(ss.Context())
		}
		info := &grpc.StreamServerInfo{FullMethod: memoryv1.FileService_Get_FullMethodName, IsServerStream: true}
		for i := len(chain) - 1; i >= 0; i-- {
			inner, layer := next, chain[i].stream
			next = func(srv any, ss grpc.ServerStream) error { return layer(srv, ss, info, inner) }
		}
		return next(nil, &getStream{contextStream{ctx: ctx}})
	},
}

// contextStream is a stream that has a context and nothing else.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

// getStream is a stream on which requests of Get come.
type getStream struct{ contextStream }

func (s *getStream) RecvMsg(m any) error {
	m.(*memoryv1.GetRequest).Namespace = "n"
	return nil
}

// eachCall runs a test with a new server for either kind of call.
func eachCall(
	t *testing.T, test func(t *testing.T, s *Server, log *logBuffer, method string, call func(handler) error),
) {
	t.Helper()
	for method, through := range calls {
		t.Run(method, func(t *testing.T) {
			log := &logBuffer{}
			s := newChained(log.logger())
			chain := s.chain()
			test(t, s, log, method, func(h handler) error { return through(t.Context(), chain, h) })
		})
	}
}

// counted tells whether the metrics have a call that ended with a code.
func counted(t *testing.T, s *Server, method string, code codes.Code) bool {
	t.Helper()
	name := method[strings.LastIndexByte(method, '/')+1:]
	for line := range strings.SplitSeq(metricsOf(t, s.metrics), "\n") {
		if strings.HasPrefix(line, "grpc_server_handled_total{") && strings.HasSuffix(line, " 1") &&
			strings.Contains(line, `grpc_code="`+code.String()+`"`) && strings.Contains(line, `grpc_method="`+name+`"`) {
			return true
		}
	}
	return false
}

func logged(log *logBuffer, method string, code codes.Code) bool {
	return strings.Contains(log.String(), `"msg":"call","method":"`+method+`","code":"`+code.String()+`"`)
}

func TestChain_Names(t *testing.T) {
	var got []string
	for _, i := range newChained(slog.New(slog.DiscardHandler)).chain() {
		got = append(got, i.name)
	}
	want := []string{"recovery", "identification", "arrival", "metrics", "logging", "audit", "authentication", "authorization", "limits", "timeout", "recovery"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestChain_PanicOfHandlerIsSeen(t *testing.T) {
	eachCall(t, func(t *testing.T, s *Server, log *logBuffer, method string, call func(handler) error) {
		err := call(func(context.Context) error { panic("secret of the handler") })
		wantStatus(t, err, codes.Internal, "INTERNAL")
		if got, want := status.Convert(err).Message(), "internal error"; got != want {
			t.Errorf("the caller is told %q, want %q", got, want)
		}
		if !counted(t, s, method, codes.Internal) || !logged(log, method, codes.Internal) {
			t.Errorf("the panic is not counted or not logged:\n%s", log)
		}
		for _, want := range []string{"secret of the handler", "interceptors_test.go"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log)
			}
		}
	})
}

// panicHandler is a log whose second line panics, as only a fault in a layer can.
type panicHandler struct{ slog.Handler }

func (h panicHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "call" {
		panic("fault of a layer")
	}
	return h.Handler.Handle(ctx, r)
}

func TestChain_PanicOfLayerIsRecovered(t *testing.T) {
	for method, through := range calls {
		t.Run(method, func(t *testing.T) {
			log := &logBuffer{}
			s := newChained(slog.New(panicHandler{log.logger().Handler()}))
			err := through(t.Context(), s.chain(), func(context.Context) error { return nil })
			wantStatus(t, err, codes.Internal, "INTERNAL")
			if !strings.Contains(log.String(), "fault of a layer") {
				t.Errorf("the log lacks the panic:\n%s", log)
			}
		})
	}
}

func TestChain_RefusalIsSeen(t *testing.T) {
	eachCall(t, func(t *testing.T, s *Server, log *logBuffer, method string, call func(handler) error) {
		err := call(func(context.Context) error {
			// The only slot is taken.
			err := call(func(context.Context) error { return nil })
			wantStatus(t, err, codes.ResourceExhausted, "OVERLOADED")
			if !counted(t, s, method, codes.ResourceExhausted) || !logged(log, method, codes.ResourceExhausted) {
				t.Errorf("the refusal is not counted or not logged:\n%s", log)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := call(func(context.Context) error { return nil }); err != nil {
			t.Errorf("the slot was not given back: %v", err)
		}
	})
}

func TestChain_AccessBeforeLimits(t *testing.T) {
	policy := parsePolicy(t, `
principals:
  - name: reader
    tokens: ["`+hashOf("good")+`"]
    grants:
      - {namespaces: [n], rights: [read]}
  - name: stranger
    tokens: ["`+hashOf("poor")+`"]
    grants:
      - {namespaces: [m], rights: [read]}
`)
	with := func(token string) context.Context {
		return metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
	}
	eachCall(t, func(t *testing.T, s *Server, _ *logBuffer, method string, _ func(handler) error) {
		s.auth = auth.New(auth.Options{Policy: policy})
		chain, through := s.chain(), calls[method]
		err := through(with("good"), chain, func(context.Context) error {
			for token, want := range map[string]codes.Code{
				"bad": codes.Unauthenticated, "poor": codes.PermissionDenied, "good": codes.ResourceExhausted,
			} {
				err := through(with(token), chain, func(context.Context) error { return nil })
				if status.Code(err) != want {
					t.Errorf("%s token: got %v, want code %v although no slot is free", token, err, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestChain_Timeout(t *testing.T) {
	eachCall(t, func(t *testing.T, s *Server, _ *logBuffer, method string, call func(handler) error) {
		allowed := s.cfg.CallTimeout
		if method == memoryv1.FileService_Get_FullMethodName {
			allowed *= streamAllowance
		}
		before := time.Now()
		err := call(func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			if !ok || deadline.Before(before.Add(allowed)) || deadline.After(time.Now().Add(allowed)) {
				t.Errorf("got deadline %v (%t), want it in %s", deadline, ok, allowed)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
