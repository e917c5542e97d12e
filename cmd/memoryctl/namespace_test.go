package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

var noon = timestamppb.New(time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC))

func acme() *memoryv1.Namespace {
	return &memoryv1.Namespace{
		Name:     "acme/user-42",
		Settings: &memoryv1.NamespaceSettings{ViewMaxChars: proto.Int64(0)},
		EffectiveSettings: &memoryv1.NamespaceSettings{
			CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum(),
			ViewMaxChars:     proto.Int64(0),
			MaxFileBytes:     proto.Int64(1 << 20),
		},
		Revision: 12, FileCount: 3, SizeBytes: 5632, CreatedTime: noon,
	}
}

const acmeTable = `Name:      acme/user-42
Files:     3
Size:      5.5K
Revision:  12
Created:   2026-03-04T12:00:00Z

SETTING             VALUE      SET BY
create-on-existing  overwrite  service
view-max-chars      0          namespace
max-file-bytes      1048576    service
`

func TestNamespaceShow(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.GetNamespaceResponse{Namespace: acme()}, nil)
	got, want := s.run(t, "", "namespace", "show", "acme/user-42"), outcome{exitOK, acmeTable, ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	wantReqs := []proto.Message{&memoryv1.GetNamespaceRequest{Namespace: "acme/user-42"}}
	if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	got = s.run(t, "", "namespace", "show", "acme/user-42", "-o", "json")
	want = outcome{exitOK, `{"namespace":{"name":"acme/user-42","settings":{"viewMaxChars":"0"},"effectiveSettings":` +
		`{"createOnExisting":"CREATE_ON_EXISTING_OVERWRITE","viewMaxChars":"0","maxFileBytes":"1048576"},` +
		`"revision":"12","fileCount":"3","sizeBytes":"5632","createdTime":"2026-03-04T12:00:00Z"}}` + "\n", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("json (-want +got):\n%s", diff)
	}
}

func TestNamespaceShow_NeverWritten(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.GetNamespaceResponse{Namespace: &memoryv1.Namespace{
		Name: "new",
		EffectiveSettings: &memoryv1.NamespaceSettings{
			CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR.Enum(),
			ViewMaxChars:     proto.Int64(16000),
			MaxFileBytes:     proto.Int64(1 << 20),
		},
	}}, nil)
	want := outcome{exitOK, `Name:      new
Files:     0
Size:      0B
Revision:  0
Created:   -

SETTING             VALUE    SET BY
create-on-existing  error    service
view-max-chars      16000    service
max-file-bytes      1048576  service
`, ""}
	if diff := cmp.Diff(want, s.run(t, "", "namespace", "show", "new")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNamespaceShow_Limits(t *testing.T) {
	for _, test := range []struct {
		name            string
		files, bytes    *int64
		inFiles, inSize string
	}{
		{"both", proto.Int64(5000), proto.Int64(1 << 30), "3 of 5000", "5.5K of 1.0G"},
		{"files", proto.Int64(3), proto.Int64(0), "3 of 3", "5.5K"},
		{"none", proto.Int64(0), proto.Int64(0), "3", "5.5K"},
		{"a service that tells none", nil, nil, "3", "5.5K"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			ns := acme()
			ns.EffectiveSettings.MaxFiles, ns.EffectiveSettings.MaxTotalBytes = test.files, test.bytes
			s.unary = always(&memoryv1.GetNamespaceResponse{Namespace: ns}, nil)
			want := "Name:      acme/user-42\nFiles:     " + test.inFiles + "\nSize:      " + test.inSize + "\nRevision:  12\n"
			if got := s.run(t, "", "namespace", "show", "acme/user-42"); !strings.HasPrefix(got.Stdout, want) {
				t.Errorf("got %+v, want it to start with %q", got, want)
			}
		})
	}
}

func TestNamespaceSet(t *testing.T) {
	tests := []struct {
		flags    string
		settings *memoryv1.NamespaceSettings
		mask     []string
	}{
		{
			"--create-on-existing=overwrite",
			&memoryv1.NamespaceSettings{
				CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum(),
			},
			[]string{"create_on_existing"},
		},
		{
			"--max-file-bytes=5 --view-max-chars=0 --create-on-existing=error",
			&memoryv1.NamespaceSettings{
				CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR.Enum(),
				ViewMaxChars:     proto.Int64(0),
				MaxFileBytes:     proto.Int64(5),
			},
			[]string{"create_on_existing", "view_max_chars", "max_file_bytes"},
		},
		{
			"--create-on-existing=default --view-max-chars=default --max-file-bytes=7",
			&memoryv1.NamespaceSettings{MaxFileBytes: proto.Int64(7)},
			[]string{"create_on_existing", "view_max_chars", "max_file_bytes"},
		},
		{
			"--expire-unread-after=30d12h",
			&memoryv1.NamespaceSettings{ExpireUnreadAfter: durationpb.New(732 * time.Hour)},
			[]string{"expire_unread_after"},
		},
		{"--max-file-bytes=default", &memoryv1.NamespaceSettings{}, []string{"max_file_bytes"}},
	}
	for _, test := range tests {
		t.Run(test.flags, func(t *testing.T) {
			s := startService(t)
			s.unary = always(&memoryv1.UpdateNamespaceResponse{Namespace: acme()}, nil)
			args := append([]string{"namespace", "set", "acme/user-42"}, strings.Fields(test.flags)...)
			got, want := s.run(t, "", args...), outcome{exitOK, acmeTable, ""}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			wantReqs := []proto.Message{&memoryv1.UpdateNamespaceRequest{
				Namespace: "acme/user-42", Settings: test.settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: test.mask},
			}}
			if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			for _, name := range test.mask { // a name that the message does not have would be refused
				if !(&fieldmaskpb.FieldMask{Paths: []string{name}}).IsValid(&memoryv1.NamespaceSettings{}) {
					t.Errorf("mask: %s is no field of NamespaceSettings", name)
				}
			}
		})
	}
}

func TestNamespaceSet_Refused(t *testing.T) {
	s := startService(t)
	const message = "max_file_bytes must be 1 to 8388608"
	s.unary = always(nil, statusError(codes.InvalidArgument, "INVALID_REQUEST", message, true))
	got := s.run(t, "", "namespace", "set", "x", "--max-file-bytes=0")
	want := outcome{exitOther, "", "memoryctl: " + message + " (INVALID_ARGUMENT, INVALID_REQUEST)\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNamespaceList(t *testing.T) {
	s := startService(t)
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		if req.(*memoryv1.ListNamespacesRequest).GetPageToken() == "" {
			return &memoryv1.ListNamespacesResponse{
				Namespaces: []*memoryv1.Namespace{acme()}, NextPageToken: "more",
			}, nil
		}
		return &memoryv1.ListNamespacesResponse{Namespaces: []*memoryv1.Namespace{{Name: "b", Revision: 1}}}, nil
	}
	want := outcome{exitOK, `NAME          FILES  SIZE  REVISION  CREATED
acme/user-42  3      5.5K  12        2026-03-04T12:00:00Z
b             0      0B    1         -
`, ""}
	if diff := cmp.Diff(want, s.run(t, "", "namespace", "list")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	wantReqs := []proto.Message{
		&memoryv1.ListNamespacesRequest{PageSize: 1000},
		&memoryv1.ListNamespacesRequest{PageSize: 1000, PageToken: "more"},
	}
	if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got := s.run(t, "", "namespace", "list", "-o", "json").Stdout
	if !strings.HasPrefix(got, `{"namespaces":[{"name":"acme/user-42",`) ||
		!strings.Contains(got, `{"name":"b",`) || !strings.HasSuffix(got, `],"nextPageToken":""}`+"\n") {
		t.Errorf("json: got %s, want both pages in one object", got)
	}
}

func TestNamespaceDelete(t *testing.T) {
	const question = "Namespace acme/user-42 holds 3 files (5.5K). Deleting it cannot be undone.\n" +
		"Type its name to delete it: "
	const refusal = "memoryctl: that is not the name; nothing was deleted\n" +
		"Run 'memoryctl namespace delete --help' for usage.\n"
	get := &memoryv1.GetNamespaceRequest{Namespace: "acme/user-42"}
	remove := &memoryv1.DeleteNamespaceRequest{Namespace: "acme/user-42"}
	tests := []struct {
		name     string
		terminal bool
		typed    string
		flags    []string
		want     outcome
		wantReqs []proto.Message
	}{
		{
			"yes", false, "",
			[]string{"--yes"},
			outcome{exitOK, "Deleted namespace acme/user-42\n", ""},
			[]proto.Message{remove},
		},
		{
			"yes, json", true, "",
			[]string{"--yes", "-o", "json"},
			outcome{exitOK, "{}\n", ""},
			[]proto.Message{remove},
		},
		{
			"name typed", true, "acme/user-42\n", nil,
			outcome{exitOK, "Deleted namespace acme/user-42\n", question},
			[]proto.Message{get, remove},
		},
		{"y typed", true, "y\n", nil, outcome{exitUsage, "", question + refusal}, []proto.Message{get}},
		{"nothing typed", true, "", nil, outcome{exitUsage, "", question + refusal}, []proto.Message{get}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
				if _, ok := req.(*memoryv1.GetNamespaceRequest); ok {
					return &memoryv1.GetNamespaceResponse{Namespace: acme()}, nil
				}
				return &memoryv1.DeleteNamespaceResponse{}, nil
			}
			args := append([]string{"namespace", "delete", "acme/user-42"}, test.flags...)
			var got outcome
			if test.terminal {
				got = s.runOnTerminal(t, test.typed, args...)
			} else {
				got = s.run(t, test.typed, args...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wantReqs, s.requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamespaceDelete_Absent(t *testing.T) {
	s := startService(t)
	s.unary = always(nil, statusError(codes.NotFound, "NAMESPACE_NOT_FOUND", "there is no namespace x", true))
	got := s.run(t, "", "namespace", "delete", "x", "--yes")
	want := outcome{exitOther, "", "memoryctl: there is no namespace x (NOT_FOUND, NAMESPACE_NOT_FOUND)\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
