package ops

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scripted is a stream whose messages succeed so many times.
type scripted struct {
	grpc.ServerStream
	left int
}

func (s *scripted) RecvMsg(any) error {
	if s.left--; s.left < 0 {
		return io.EOF
	}
	return nil
}

func (s *scripted) SendMsg(any) error { return s.RecvMsg(nil) }

// Calls are counted under the names of go-grpc-prometheus, whatever they end with.
func TestCalls(t *testing.T) {
	m := NewMetrics("")
	unary, stream := m.Unary(), m.Stream()
	for _, err := range []error{
		nil, nil, status.Error(codes.NotFound, ""), errors.New("no status"), context.DeadlineExceeded,
		status.Error(codes.Code(99), "none of gRPC's"),
	} {
		_, got := unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.Service/Unary"},
			func(context.Context, any) (any, error) { return nil, err })
		if !errors.Is(got, err) {
			t.Errorf("got %v, want the error of the handler, %v", got, err)
		}
	}
	for _, kind := range []struct{ client, server bool }{{true, false}, {false, true}, {true, true}} {
		info := &grpc.StreamServerInfo{
			FullMethod:     "/a.Service/" + kindOf(kind.client, kind.server),
			IsClientStream: kind.client, IsServerStream: kind.server,
		}
		err := stream(nil, &scripted{left: 5}, info, func(_ any, ss grpc.ServerStream) error {
			for range 3 {
				_ = ss.RecvMsg(nil)
			}
			for range 4 {
				_ = ss.SendMsg(nil)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}

	code, body := get(t, newHandler(Options{Metrics: m, Ready: serving}), "/metrics")
	if code != http.StatusOK {
		t.Fatalf("got status %d", code)
	}
	const unaryLabels = `grpc_method="Unary",grpc_service="a.Service",grpc_type="unary"`
	for _, want := range []string{
		`grpc_server_started_total{` + unaryLabels + `} 6`,
		`grpc_server_msg_received_total{` + unaryLabels + `} 6`,
		`grpc_server_msg_sent_total{` + unaryLabels + `} 2`,
		`grpc_server_handling_seconds_count{` + unaryLabels + `} 6`,
		`grpc_server_handled_total{grpc_code="OK",` + unaryLabels + `} 2`,
		`grpc_server_handled_total{grpc_code="NotFound",` + unaryLabels + `} 1`,
		`grpc_server_handled_total{grpc_code="Unknown",` + unaryLabels + `} 2`,
		`grpc_server_handled_total{grpc_code="DeadlineExceeded",` + unaryLabels + `} 1`,
		`grpc_server_handled_total{grpc_code="DataLoss",` + unaryLabels + `} 0`,
		`grpc_server_msg_received_total{grpc_method="bidi_stream",grpc_service="a.Service",grpc_type="bidi_stream"} 3`,
		`grpc_server_msg_sent_total{grpc_method="server_stream",grpc_service="a.Service",grpc_type="server_stream"} 2`,
		`grpc_server_started_total{grpc_method="client_stream",grpc_service="a.Service",grpc_type="client_stream"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
