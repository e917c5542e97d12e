package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// screenAnswers answers as a service with two namespaces, of which one has secrets on two pages.
func screenAnswers(_ context.Context, req proto.Message) (proto.Message, error) {
	switch req := req.(type) {
	case *memoryv1.ListNamespacesRequest:
		if req.GetPageToken() == "" {
			return &memoryv1.ListNamespacesResponse{
				Namespaces: []*memoryv1.Namespace{{Name: "acme"}}, NextPageToken: "n",
			}, nil
		}
		return &memoryv1.ListNamespacesResponse{Namespaces: []*memoryv1.Namespace{{Name: "fine"}}}, nil
	case *memoryv1.ScreenRequest:
		switch req.GetNamespace() + " " + req.GetPageToken() {
		case "acme ":
			return &memoryv1.ScreenResponse{
				Findings:  []*memoryv1.SecretFinding{{Path: "/memories/a.md", Rule: "github-pat", Line: 3}},
				FileCount: 200, NextPageToken: "p",
			}, nil
		case "acme p":
			return &memoryv1.ScreenResponse{
				Findings:  []*memoryv1.SecretFinding{{Path: "/memories/people/ada.md", Rule: "jwt", Line: 12}},
				FileCount: 2,
			}, nil
		case "fine ":
			return &memoryv1.ScreenResponse{FileCount: 1}, nil
		}
	}
	return nil, status.Error(codes.InvalidArgument, "not expected")
}

func TestScreen(t *testing.T) {
	const acmeJSON = `{"namespace":"acme","path":"/memories/a.md","line":3,"rule":"github-pat"}
{"namespace":"acme","path":"/memories/people/ada.md","line":12,"rule":"jwt"}
`
	tests := []struct {
		name string
		args []string
		want outcome
	}{
		{"found", []string{"screen", "-n", "acme"}, outcome{exitErrorResult, `NAMESPACE  PATH                     LINE  RULE
acme       /memories/a.md           3     github-pat
acme       /memories/people/ada.md  12    jwt

2 secrets found in 202 files
`, ""}},
		{"found, for programs", []string{"screen", "-n", "acme", "-o", "json"}, outcome{exitErrorResult, acmeJSON, ""}},
		{"none", []string{"screen", "-n", "fine"}, outcome{exitOK, "0 secrets found in 1 file\n", ""}},
		{"none, for programs", []string{"screen", "-n", "fine", "-o", "json"}, outcome{exitOK, "", ""}},
		{"every namespace", []string{"screen", "--all-namespaces", "-o", "json"}, outcome{exitErrorResult, acmeJSON, ""}},
		{"two ways to say it", []string{"screen", "--all-namespaces", "-n", "acme"}, outcome{
			exitUsage, "", "memoryctl: --namespace and --all-namespaces exclude each other\n" +
				"Run 'memoryctl screen --help' for usage.\n",
		}},
		{"refused", []string{"screen", "-n", "other"}, outcome{
			exitOther, "", "memoryctl: not expected (INVALID_ARGUMENT)\n",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = screenAnswers
			if diff := cmp.Diff(test.want, s.run(t, "", test.args...)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScreen_Requests(t *testing.T) {
	s := startService(t)
	s.unary = screenAnswers
	s.run(t, "", "screen", "--all-namespaces")
	want := []proto.Message{
		&memoryv1.ListNamespacesRequest{PageSize: namespacesPage},
		&memoryv1.ListNamespacesRequest{PageSize: namespacesPage, PageToken: "n"},
		&memoryv1.ScreenRequest{Namespace: "acme"},
		&memoryv1.ScreenRequest{Namespace: "acme", PageToken: "p"},
		&memoryv1.ScreenRequest{Namespace: "fine"},
	}
	if diff := cmp.Diff(want, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
