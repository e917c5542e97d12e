package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

func expiring(path string, size int64, viewed *timestamppb.Timestamp, days int) *memoryv1.ExpiringFile {
	return &memoryv1.ExpiringFile{
		Entry: fileEntry(path, size), ViewedTime: viewed,
		ExpireTime: timestamppb.New(noon.AsTime().AddDate(0, 0, days)),
	}
}

// plans answers PlanExpiry with two pages, the last of which has no files.
func plans(_ context.Context, req proto.Message) (proto.Message, error) {
	if req.(*memoryv1.PlanExpiryRequest).GetPageToken() == "" {
		return &memoryv1.PlanExpiryResponse{NextPageToken: "more", Files: []*memoryv1.ExpiringFile{
			expiring("/memories/a", 1536, nil, 3), expiring("/memories/b", 10, noon, 1), expiring("/memories/c", 0, nil, 3),
		}}, nil
	}
	return &memoryv1.PlanExpiryResponse{}, nil
}

func TestExpiryPlan(t *testing.T) {
	s := startService(t)
	s.unary = plans
	want := outcome{exitOK, `PATH         SIZE  VIEWED                CHANGED               EXPIRES
/memories/b  10B   2026-03-04T12:00:00Z  2026-03-04T12:00:00Z  2026-03-05T12:00:00Z
/memories/a  1.5K  -                     2026-03-04T12:00:00Z  2026-03-07T12:00:00Z
/memories/c  0B    -                     2026-03-04T12:00:00Z  2026-03-07T12:00:00Z

3 files, 1.5K
`, ""}
	if diff := cmp.Diff(want, s.run(t, "", "-n", "x", "expiry", "plan", "--unread-for", "29d24h")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	unread := durationpb.New(720 * time.Hour)
	wantReqs := []proto.Message{
		&memoryv1.PlanExpiryRequest{Namespace: "x", ExpireUnreadAfter: unread},
		&memoryv1.PlanExpiryRequest{Namespace: "x", ExpireUnreadAfter: unread, PageToken: "more"},
	}
	if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	got := s.run(t, "", "expiry", "plan", "-o", "json")
	if got.Status != exitOK || !strings.HasPrefix(got.Stdout, `{"files":[{"entry":{"path":"/memories/b",`) ||
		!strings.HasSuffix(got.Stdout, `"expireTime":"2026-03-07T12:00:00Z"}],"nextPageToken":""}`+"\n") {
		t.Errorf("json: got %+v, want both pages in one object", got)
	}
}

func TestExpiryPlan_Within(t *testing.T) {
	s := startService(t)
	s.unary = plans
	before := time.Now().Add(168 * time.Hour)
	if got := s.run(t, "", "expiry", "plan", "--within", "7d"); got.Status != exitOK {
		t.Errorf("got %+v", got)
	}
	after := time.Now().Add(168 * time.Hour)
	for _, req := range s.requests() {
		at := req.(*memoryv1.PlanExpiryRequest).GetExpireBefore().AsTime()
		if at.Before(before) || at.After(after) {
			t.Errorf("plans until %v, want %v to %v", at, before, after)
		}
	}
}

// TestExpiryPlan_Empty says why a plan is empty.
func TestExpiryPlan_Empty(t *testing.T) {
	day := durationpb.New(24 * time.Hour)
	tests := []struct {
		name    string
		setting *durationpb.Duration
		args    []string
		want    string
	}{
		{
			"off", durationpb.New(0), nil,
			"Nothing expires: expire-unread-after is 0s. To see what would go: memoryctl expiry plan --unread-for 30d\n",
		},
		{
			"a service that knows no such setting", nil, nil,
			"Nothing expires: expire-unread-after is 0s. To see what would go: memoryctl expiry plan --unread-for 30d\n",
		},
		{"on", day, nil, "No file has expired.\n"},
		{"another setting", durationpb.New(0), []string{"--unread-for", "24h"}, "No file has expired.\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
				if _, ok := req.(*memoryv1.PlanExpiryRequest); ok {
					return &memoryv1.PlanExpiryResponse{}, nil
				}
				return &memoryv1.GetNamespaceResponse{Namespace: &memoryv1.Namespace{
					EffectiveSettings: &memoryv1.NamespaceSettings{ExpireUnreadAfter: test.setting},
				}}, nil
			}
			got := s.run(t, "", append([]string{"expiry", "plan"}, test.args...)...)
			if diff := cmp.Diff(outcome{exitOK, test.want, ""}, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(outcome{exitOK, "{\"files\":[],\"nextPageToken\":\"\"}\n", ""},
				s.run(t, "", append([]string{"expiry", "plan", "-o", "json"}, test.args...)...)); diff != "" {
				t.Errorf("json (-want +got):\n%s", diff)
			}
			within := s.run(t, "", "expiry", "plan", "--unread-for", "24h", "--within", "1h")
			if !strings.HasPrefix(within.Stdout, "No file expires before 2") {
				t.Errorf("within: got %+v", within)
			}
		})
	}
}

func TestExpiryPlan_Usage(t *testing.T) {
	for arg, want := range map[string]string{
		"--unread-for=0s":  "--unread-for 0s: want more than 0, for example 30d",
		"--unread-for=-1h": "--unread-for -1h0m0s: want more than 0, for example 30d",
		"--within=-1h":     "--within -1h0m0s: want 0 or more, for example 7d",
	} {
		s := startService(t)
		got := s.run(t, "", "expiry", "plan", arg)
		if got.Status != exitUsage || !strings.HasPrefix(got.Stderr, "memoryctl: "+want) || len(s.requests()) > 0 {
			t.Errorf("%s: got %+v, want %s", arg, got, want)
		}
	}
}

// TestExpiryPlan_TooShort has the service refuse the flag, of which it knows as a setting.
func TestExpiryPlan_TooShort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	got := run(t, strings.NewReader(""), "--addr", listener.Addr().String(), "expiry", "plan", "--unread-for", "1s")
	want := outcome{exitUsage, "", "memoryctl: --unread-for 1s: it must be 1h0m0s or more\n" +
		"Run 'memoryctl expiry plan --help' for usage.\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExpiryPlan_Help shows no default, since there is none.
func TestExpiryPlan_Help(t *testing.T) {
	got := run(t, strings.NewReader(""), "expiry", "plan", "--help")
	if !strings.Contains(got.Stdout, "--unread-for DURATION") || strings.Contains(got.Stdout, "(default 0s)") {
		t.Errorf("got %s", got.Stdout)
	}
}
