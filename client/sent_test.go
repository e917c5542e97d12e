package client

import (
	"testing"

	"google.golang.org/grpc/stats"
)

func TestSentRecorder(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []stats.RPCStats
		want   bool
	}{
		{"nothing sent", []stats.RPCStats{&stats.Begin{}, &stats.OutHeader{}}, false},
		{"sent", []stats.RPCStats{&stats.Begin{}, &stats.OutHeader{}, &stats.OutPayload{}}, true},
		{"refused unread, and not sent again", []stats.RPCStats{
			&stats.Begin{}, &stats.OutPayload{}, &stats.Begin{IsTransparentRetryAttempt: true},
		}, false},
		{"refused unread, and sent again", []stats.RPCStats{
			&stats.Begin{}, &stats.OutPayload{}, &stats.Begin{IsTransparentRetryAttempt: true}, &stats.OutPayload{},
		}, true},
		{"an ordinary retry", []stats.RPCStats{&stats.Begin{}, &stats.OutPayload{}, &stats.Begin{}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, sent := withSent(t.Context())
			for _, e := range tt.events {
				sentRecorder{}.HandleRPC(ctx, e)
				sentRecorder{}.HandleRPC(t.Context(), e) // a call that nobody watches
			}
			if got := sent.get(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
