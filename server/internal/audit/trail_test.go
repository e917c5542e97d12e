package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrail(t *testing.T) {
	ctx, trail := NewContext(t.Context())
	if got := FromContext(ctx); got != trail {
		t.Fatalf("got the trail %p, want %p", got, trail)
	}
	if got := trail.Events(); got != nil {
		t.Errorf("got %v, want no events", got)
	}
	trail.SetPrincipal("agent-7", "uid 1000")
	trail.SetPeer("10.0.0.7:51814")
	trail.Add(Event{Time: noon, Command: "create", Path: "/memories/a", Outcome: OutcomeOK, Revision: 3})
	trail.Add(Event{
		Principal: "p", Credential: "c", Peer: "q", Method: "/n", Namespace: "other", Session: "s", RequestID: "r", Outcome: "file_quota",
	})
	trail.SetMethod("/m") // what is said later counts too
	trail.SetNamespace("acme")
	trail.SetSession("run-12")
	trail.SetRequestID("toolu_01")

	common := Event{
		Principal: "agent-7", Credential: "uid 1000", Peer: "10.0.0.7:51814", Method: "/m", Namespace: "acme", Session: "run-12",
		RequestID: "toolu_01",
	}
	if diff := cmp.Diff(common, trail.Common()); diff != "" {
		t.Errorf("common (-want +got):\n%s", diff)
	}
	if got := trail.Principal(); got != "agent-7" {
		t.Errorf("got the principal %q, want agent-7", got)
	}
	first := common
	first.Time, first.Command, first.Path, first.Outcome, first.Revision = noon, "create", "/memories/a", OutcomeOK, 3
	want := []Event{first, {
		Principal: "p", Credential: "c", Peer: "q", Method: "/n", Namespace: "other", Session: "s", RequestID: "r", Outcome: "file_quota",
	}}
	if diff := cmp.Diff(want, trail.Events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTrail_Nil(t *testing.T) {
	trail := FromContext(t.Context())
	if trail != nil {
		t.Fatal("a context has a trail by itself")
	}
	trail.SetPrincipal("a", "b")
	trail.Add(Event{})
	if trail.Principal() != "" || trail.Events() != nil || trail.Common() != (Event{}) {
		t.Error("a nil trail keeps something")
	}
}
