package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// pins answers Pin: /memories/none does not exist.
func pins(_ context.Context, req proto.Message) (proto.Message, error) {
	path := req.(*memoryv1.PinRequest).GetPath()
	if path == "/memories/none" {
		return &memoryv1.PinResponse{Result: errorText(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND,
			"The path /memories/none does not exist. Please provide a valid path.")}, nil
	}
	entry := fileEntry(path, 5)
	entry.Pinned = !req.(*memoryv1.PinRequest).GetUnpin()
	return &memoryv1.PinResponse{Result: &memoryv1.ToolResult{}, Revision: 3, Entry: entry}, nil
}

func TestPin(t *testing.T) {
	const missing = "The path /memories/none does not exist. Please provide a valid path.\n"
	tests := []struct {
		name     string
		args     []string
		want     outcome
		wantReqs []proto.Message
	}{
		{
			"one",
			[]string{"-n", "x", "pin", "/memories/a"},
			outcome{exitOK, "Pinned /memories/a\n", ""},
			[]proto.Message{&memoryv1.PinRequest{Namespace: "x", Path: "/memories/a"}},
		},
		{
			"goes on after one that does not exist",
			[]string{"pin", "/memories/a", "/memories/none", "/memories/b"},
			outcome{exitErrorResult, "Pinned /memories/a\nPinned /memories/b\n", missing},
			[]proto.Message{
				&memoryv1.PinRequest{Namespace: "default", Path: "/memories/a"},
				&memoryv1.PinRequest{Namespace: "default", Path: "/memories/none"},
				&memoryv1.PinRequest{Namespace: "default", Path: "/memories/b"},
			},
		},
		{
			"unpin",
			[]string{"unpin", "/memories/a"},
			outcome{exitOK, "Unpinned /memories/a\n", ""},
			[]proto.Message{&memoryv1.PinRequest{Namespace: "default", Path: "/memories/a", Unpin: true}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = pins
			if diff := cmp.Diff(test.want, s.run(t, "", test.args...)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wantReqs, s.requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPin_JSON(t *testing.T) {
	s := startService(t)
	s.unary = pins
	want := outcome{exitErrorResult, `{"result":{"isError":true,"reason":"REASON_VIEW_PATH_NOT_FOUND",` +
		`"content":[{"text":"The path /memories/none does not exist. Please provide a valid path."}]},"revision":"0"}` +
		"\n" + `{"result":{"isError":false,"reason":"REASON_UNSPECIFIED","content":[]},"revision":"3",` +
		`"entry":{"path":"/memories/a","kind":"ENTRY_KIND_FILE","sizeBytes":"5","lines":"0","sha256":"",` +
		`"modifiedTime":"2026-03-04T12:00:00Z","revision":"0","fileCount":"0","pinned":true}}` + "\n", ""}
	if diff := cmp.Diff(want, s.run(t, "", "pin", "-o", "json", "/memories/none", "/memories/a")); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestPin_Refused(t *testing.T) {
	s := startService(t)
	s.unary = always(nil, statusError(codes.InvalidArgument, "INVALID_REQUEST",
		"path is a directory; only files are pinned", true))
	want := outcome{exitOther, "", "memoryctl: path is a directory; only files are pinned " +
		"(INVALID_ARGUMENT, INVALID_REQUEST)\n"}
	if diff := cmp.Diff(want, s.run(t, "", "pin", "/memories", "/memories/a")); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	want = outcome{exitUsage, "", "memoryctl: 0 arguments given, but it is: memoryctl pin PATH...\n" +
		"Run 'memoryctl pin --help' for usage.\n"}
	if diff := cmp.Diff(want, s.run(t, "", "pin")); diff != "" {
		t.Errorf("no path (-want +got):\n%s", diff)
	}
}
