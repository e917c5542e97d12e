package client

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// preconditions are those of one request.
type preconditions struct{ IfSHA256, ViewedSHA256 string }

// fileResponse is that of a command on a file.
func fileResponse(path, sum string, notes ...string) *memoryv1.ExecuteResponse {
	resp := textResponse(append([]string{"done"}, notes...)...)
	resp.Entry = &memoryv1.Entry{Path: path, Kind: memoryv1.EntryKind_ENTRY_KIND_FILE, Sha256: sum}
	return resp
}

func dirResponse(path string) *memoryv1.ExecuteResponse {
	resp := textResponse("done")
	resp.Entry = &memoryv1.Entry{Path: path, Kind: memoryv1.EntryKind_ENTRY_KIND_DIRECTORY}
	return resp
}

func failedResponse(reason memoryv1.Reason) *memoryv1.ExecuteResponse {
	return &memoryv1.ExecuteResponse{Result: &memoryv1.ToolResult{
		IsError: true, Reason: reason, Content: textContent("Error: no"),
	}}
}

func TestGuardStaleEdits(t *testing.T) {
	type step struct {
		input string
		resp  *memoryv1.ExecuteResponse // nil: the answer is lost
		want  preconditions
	}
	none := preconditions{}
	ifSum := func(sum string) preconditions { return preconditions{IfSHA256: sum} }
	viewed := func(sum string) preconditions { return preconditions{ViewedSHA256: sum} }
	view := func(path, sum string) step {
		return step{fmt.Sprintf(`{"command":"view","path":%q}`, path), fileResponse(path, sum), none}
	}
	input := func(command, path string) string { return fmt.Sprintf(`{"command":%q,"path":%q}`, command, path) }
	failed := failedResponse(memoryv1.Reason_REASON_PRECONDITION_FAILED)
	const a, b, note = "/memories/a", "/memories/b", "Note: /memories/a was changed by someone else since you viewed it; " +
		"your change was made to the newer text"

	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"never viewed", []step{
			{input("create", a), failed, none},
			{input("insert", a), failed, none},
			{input("str_replace", a), failed, none},
			{input("delete", a), failed, none},
		}},
		{"viewed", []step{
			view(a, "1"),
			{input("create", a), failed, ifSum("1")},
			{input("insert", a), failed, ifSum("1")},
			{input("str_replace", a), failed, viewed("1")},
			{input("delete", a), failed, ifSum("1")},
			{input("view", a), fileResponse(a, "2"), none},
			{input("insert", a), failed, ifSum("2")},
			{input("insert", b), failed, none},
			{input("frobnicate", a), failed, none},
		}},
		{"viewed in part", []step{
			{`{"command":"view","path":"/memories/a","view_range":[1,2]}`, fileResponse(a, "1"), none},
			{input("insert", a), failed, ifSum("1")},
		}},
		{"own writes", []step{
			{input("create", a), fileResponse(a, "1"), none},
			{input("insert", a), fileResponse(a, "2"), ifSum("1")},
			{input("str_replace", a), fileResponse(a, "3"), viewed("2")},
			{input("create", a), fileResponse(a, "4"), ifSum("3")},
			{input("delete", a), fileResponse(a, "4"), ifSum("4")},
			{input("create", a), fileResponse(a, "5"), none},
		}},
		{"an edit of a newer text is no view of it", []step{
			view(a, "1"),
			{input("str_replace", a), fileResponse(a, "3", note), viewed("1")},
			{input("insert", a), failed, ifSum("1")},
			view(a, "3"),
			{input("insert", a), failed, ifSum("3")},
		}},
		{"another note", []step{
			view(a, "1"),
			{input("str_replace", a), fileResponse(a, "3", "Note: 1 secrets were replaced by [REDACTED] (x, line 1)"), viewed("1")},
			{input("insert", a), failed, ifSum("3")},
		}},
		{"rename of a file", []step{
			view(a, "1"),
			{`{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`, fileResponse(b, "1"), none},
			{input("insert", a), failed, none},
			{input("insert", b), failed, ifSum("1")},
		}},
		{"rename of a directory", []step{
			view("/memories/d/x", "1"), view("/memories/d/e/y", "2"), view("/memories/dd", "3"),
			{`{"command":"rename","path":"/memories/d/","new_path":"/memories/f"}`, dirResponse("/memories/f"), none},
			{input("insert", "/memories/d/x"), failed, none},
			{input("insert", "/memories/f/x"), failed, ifSum("1")},
			{input("insert", "/memories/f/e/y"), failed, ifSum("2")},
			{input("insert", "/memories/dd"), failed, ifSum("3")},
		}},
		{"delete of a directory", []step{
			view("/memories/d/x", "1"), view("/memories/dd", "3"),
			{input("delete", "/memories/d"), dirResponse("/memories/d"), none},
			{input("create", "/memories/d/x"), failed, none},
			{input("insert", "/memories/dd"), failed, ifSum("3")},
		}},
		{"view of a directory", []step{
			view("/memories/d/x", "1"),
			{input("view", "/memories/d"), dirResponse("/memories/d"), none},
			{input("delete", "/memories/d"), failed, none},
			{input("insert", "/memories/d/x"), failed, ifSum("1")},
		}},
		{"a directory where the file was", []step{
			view(a, "1"),
			{input("view", a), dirResponse(a), none},
			{input("delete", a), failed, none},
		}},
		{"gone", []step{
			view(a, "1"),
			{input("view", a), failedResponse(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND), none},
			{input("create", a), failed, none},
			view(a, "1"),
			{input("insert", a), failedResponse(memoryv1.Reason_REASON_INSERT_PATH_NOT_FOUND), ifSum("1")},
			{input("create", a), failed, none},
		}},
		{"spellings of a path", []step{
			{input("view", "/memories/cafe\u0301"), fileResponse("/memories/caf\u00e9", "1"), none},
			{input("insert", "/memories/caf\u00e9"), fileResponse("/memories/caf\u00e9", "2"), ifSum("1")},
			{input("insert", "/memories//./cafe\u0301/"), failed, ifSum("2")},
			{`"{\"command\":\"insert\",\"path\":\"/memories/caf\\u00e9\"}"`, failed, ifSum("2")},
			{`{"command":"rename","old_path":"/memories/café","new_path":"/memories/b"}`, fileResponse(b, "2"), none},
			{input("insert", "/memories/cafe\u0301"), failed, none},
		}},
		{"a lost answer", []step{
			view(a, "1"),
			{input("insert", a), nil, ifSum("1")}, // if it was made, the model has to view the file first
			{input("insert", a), failed, ifSum("1")},
		}},
		{"no input", []step{view(a, "1"), {`[`, failed, none}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *preconditions
			var next *memoryv1.ExecuteResponse
			c, _ := start(t, &fake{
				execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
					p := preconditions{req.GetIfSha256(), req.GetViewedSha256()}
					if got != nil && *got != p {
						t.Errorf("an attempt had %v, the one before %v", p, *got)
					}
					got = &p
					if next == nil {
						return nil, status.Error(codes.Unavailable, "connection reset")
					}
					return next, nil
				},
			})
			h := c.Handler("", GuardStaleEdits())
			for i, s := range tt.steps {
				got, next = nil, s.resp
				h.Handle(t.Context(), json.RawMessage(s.input))
				if diff := cmp.Diff(&s.want, got); diff != "" {
					t.Errorf("step %d, %s (-want +got):\n%s", i, s.input, diff)
				}
			}
		})
	}
}

// Without the option nothing is sent, and each handler remembers for itself.
func TestGuardStaleEdits_Option(t *testing.T) {
	var got string
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			got = req.GetIfSha256()
			return fileResponse("/memories/a", "1"), nil
		},
	})
	guarded := GuardStaleEdits()
	first := c.Handler("", guarded)
	first.Handle(t.Context(), json.RawMessage(viewInput))
	for _, tt := range []struct {
		name string
		h    *Handler
		want string
	}{{"the one that viewed", first, "1"}, {"another", c.Handler("", guarded), ""}, {"unguarded", c.Handler(""), ""}} {
		tt.h.Handle(t.Context(), json.RawMessage(createInput))
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestGuard_IsBounded(t *testing.T) {
	g := newGuard()
	file := func(i int) string { return fmt.Sprintf("/memories/%d", i) }
	know := func(i int) bool {
		req := &memoryv1.ExecuteRequest{Input: fmt.Sprintf(`{"command":"delete","path":%q}`, file(i))}
		g.prepare(req)
		return req.GetIfSha256() != ""
	}
	for i := range maxRemembered + 1 {
		req := &memoryv1.ExecuteRequest{Input: fmt.Sprintf(`{"command":"view","path":"/memories/x%d"}`, i)}
		g.learn(req, fileResponse(file(i), "1"))
		g.learn(req, fileResponse(file(0), "1")) // the first is seen again and again
	}
	if len(g.sums) != maxRemembered || len(g.recent) != maxRemembered || len(g.names) > maxRemembered {
		t.Errorf("remembers %d files (%d in order) and %d names, want %d", len(g.sums), len(g.recent), len(g.names),
			maxRemembered)
	}
	for i, want := range map[int]bool{0: true, 1: false, 2: true, maxRemembered: true} {
		if got := know(i); got != want {
			t.Errorf("file %d is known: %v, want %v", i, got, want)
		}
	}
}
