package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func dirEntry(path string, size int64) *memoryv1.Entry {
	return &memoryv1.Entry{
		Path: path, Kind: memoryv1.EntryKind_ENTRY_KIND_DIRECTORY, SizeBytes: size, ModifiedTime: noon,
	}
}

func fileEntry(path string, size int64) *memoryv1.Entry {
	return &memoryv1.Entry{Path: path, Kind: memoryv1.EntryKind_ENTRY_KIND_FILE, SizeBytes: size, ModifiedTime: noon}
}

// paged answers List with two pages, which are of the given revisions.
func paged(first, second int64) func(context.Context, proto.Message) (proto.Message, error) {
	return func(_ context.Context, req proto.Message) (proto.Message, error) {
		if req.(*memoryv1.ListRequest).GetPageToken() == "" {
			return &memoryv1.ListResponse{
				Result: &memoryv1.ToolResult{}, Revision: first, NextPageToken: "more",
				Entries: []*memoryv1.Entry{
					dirEntry("/memories/a", 1536), fileEntry("/memories/a-b", 10), dirEntry("/memories/z", 0),
				},
			}, nil
		}
		return &memoryv1.ListResponse{
			Result: &memoryv1.ToolResult{}, Revision: second,
			Entries: []*memoryv1.Entry{
				fileEntry("/memories/a/.hidden", 512), dirEntry("/memories/a/b", 1024), fileEntry("/memories/a/b/c", 1024),
			},
		}, nil
	}
}

const wholeTree = `    SIZE  MODIFIED              NAME
    1.5K                        /memories
    1.5K  2026-03-04T12:00:00Z  ├── a/
    512B  2026-03-04T12:00:00Z  │   ├── .hidden
    1.0K  2026-03-04T12:00:00Z  │   └── b/
    1.0K  2026-03-04T12:00:00Z  │       └── c
     10B  2026-03-04T12:00:00Z  ├── a-b
      0B  2026-03-04T12:00:00Z  └── z/

3 directories, 3 files
`

func TestTree(t *testing.T) {
	s := startService(t)
	s.unary = paged(5, 5)
	if diff := cmp.Diff(outcome{exitOK, wholeTree, ""}, s.run(t, "", "tree")); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	wantReqs := []proto.Message{
		&memoryv1.ListRequest{Namespace: "default", Path: "/memories"},
		&memoryv1.ListRequest{Namespace: "default", Path: "/memories", PageToken: "more"},
	}
	if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestTree_ChangedBetweenPages(t *testing.T) {
	s := startService(t)
	s.unary = paged(5, 6)
	want := outcome{exitOK, wholeTree, "memoryctl: the memory was changed while it was listed; " +
		"the list may mix old and new\n"}
	if diff := cmp.Diff(want, s.run(t, "", "tree")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTree_JSON(t *testing.T) {
	s := startService(t)
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		resp := &memoryv1.ListResponse{Result: &memoryv1.ToolResult{}, Revision: 5}
		if req.(*memoryv1.ListRequest).GetPageToken() == "" {
			resp.NextPageToken = "more"
			resp.Entries = []*memoryv1.Entry{{Path: "/memories/a", Kind: memoryv1.EntryKind_ENTRY_KIND_FILE}}
		}
		return resp, nil
	}
	want := outcome{exitOK, `{"result":{"isError":false,"reason":"REASON_UNSPECIFIED","content":[]},"revision":"5",` +
		`"entries":[{"path":"/memories/a","kind":"ENTRY_KIND_FILE","sizeBytes":"0","lines":"0","sha256":"",` +
		`"revision":"0","fileCount":"0","pinned":false}],"nextPageToken":""}` + "\n", ""}
	if diff := cmp.Diff(want, s.run(t, "", "tree", "-o", "json")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTree_Directory(t *testing.T) {
	tests := []struct {
		name, path string
		entries    []*memoryv1.Entry
		want       string
	}{
		{"empty", "/memories/a/", nil, `    SIZE  MODIFIED              NAME
      0B                        /memories/a

0 directories, 0 files
`},
		{
			"spelled in another way", "/memories//./a/",
			[]*memoryv1.Entry{fileEntry("/memories/a/b", 1)},
			`    SIZE  MODIFIED              NAME
      1B                        /memories/a
      1B  2026-03-04T12:00:00Z  └── b

0 directories, 1 file
`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = always(&memoryv1.ListResponse{Result: &memoryv1.ToolResult{}, Entries: test.entries}, nil)
			if diff := cmp.Diff(outcome{exitOK, test.want, ""}, s.run(t, "", "tree", test.path)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTree_Pinned(t *testing.T) {
	s := startService(t)
	pinned := fileEntry("/memories/a", 1)
	pinned.Pinned = true
	s.unary = always(&memoryv1.ListResponse{
		Result: &memoryv1.ToolResult{}, Entries: []*memoryv1.Entry{pinned, fileEntry("/memories/b", 2)},
	}, nil)
	want := outcome{exitOK, `    SIZE  MODIFIED              NAME
      3B                        /memories
      1B  2026-03-04T12:00:00Z  ├── a (pinned)
      2B  2026-03-04T12:00:00Z  └── b

0 directories, 2 files
`, ""}
	if diff := cmp.Diff(want, s.run(t, "", "tree")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTree_ErrorResult(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.ListResponse{
		Result: errorText(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND, "no such path"),
	}, nil)
	got := s.run(t, "", "tree", "/memories/none")
	if diff := cmp.Diff(outcome{exitErrorResult, "", "no such path\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
