package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	view := &memoryv1.ViewResponse{Result: text("shown")}
	create := &memoryv1.CreateResponse{Result: text("made")}
	replace := &memoryv1.StrReplaceResponse{Result: text("replaced")}
	insert := &memoryv1.InsertResponse{Result: text("put in")}
	viewOf := func(start, end int64) *memoryv1.ViewRequest {
		r := &memoryv1.ViewRange{Start: start, End: end}
		return &memoryv1.ViewRequest{Namespace: "default", Path: "/memories/a", ViewRange: r}
	}
	createOf := func(text string) *memoryv1.CreateRequest {
		return &memoryv1.CreateRequest{Namespace: "default", Path: "/memories/a", FileText: text}
	}
	replaceOf := func(oldStr, newStr string) *memoryv1.StrReplaceRequest {
		return &memoryv1.StrReplaceRequest{Namespace: "default", Path: "/memories/a", OldStr: oldStr, NewStr: newStr}
	}
	insertOf := func(line int64, text string) *memoryv1.InsertRequest {
		return &memoryv1.InsertRequest{Namespace: "default", Path: "/memories/a", InsertLine: line, InsertText: text}
	}

	tests := []struct {
		args     []string
		stdin    string
		resp     proto.Message
		wantReq  proto.Message
		wantText string
	}{
		{
			[]string{"view", "/memories/a"},
			"", view,
			&memoryv1.ViewRequest{Namespace: "default", Path: "/memories/a"}, "shown\n",
		},
		{[]string{"view", "/memories/a", "--range", "2:5"}, "", view, viewOf(2, 5), "shown\n"},
		{[]string{"view", "/memories/a", "--range=2:"}, "", view, viewOf(2, -1), "shown\n"},
		{[]string{"view", "/memories/a", "--range=:5"}, "", view, viewOf(1, 5), "shown\n"},
		{[]string{"view", "/memories/a", "--range", "2:-1"}, "", view, viewOf(2, -1), "shown\n"},

		{[]string{"create", "/memories/a", "a text"}, "not read", create, createOf("a text"), "made\n"},
		{[]string{"create", "/memories/a", ""}, "not read", create, createOf(""), "made\n"},
		{[]string{"create", "/memories/a", "--", "-x"}, "not read", create, createOf("-x"), "made\n"},
		{[]string{"create", "/memories/a", "--file", file}, "not read", create, createOf("from a file\n"), "made\n"},
		{[]string{"create", "/memories/a", "--file", "-"}, "piped\n", create, createOf("piped\n"), "made\n"},
		{[]string{"create", "/memories/a", "-"}, "piped\n", create, createOf("piped\n"), "made\n"},
		{[]string{"create", "/memories/a"}, "piped\r\n\x00", create, createOf("piped\r\n\x00"), "made\n"},

		{[]string{"str-replace", "/memories/a", "old", "new"}, "", replace, replaceOf("old", "new"), "replaced\n"},
		{[]string{"str-replace", "/memories/a", "old"}, "", replace, replaceOf("old", ""), "replaced\n"},
		{[]string{"str-replace", "/memories/a", "--", "-o", "-n"}, "", replace, replaceOf("-o", "-n"), "replaced\n"},

		{[]string{"insert", "/memories/a", "0", "x"}, "not read", insert, insertOf(0, "x"), "put in\n"},
		{[]string{"insert", "/memories/a", "7", "-"}, "piped\n", insert, insertOf(7, "piped\n"), "put in\n"},
		{[]string{"insert", "/memories/a", "7"}, "piped\n", insert, insertOf(7, "piped\n"), "put in\n"},
		{[]string{"insert", "/memories/a", "--", "-1", "x"}, "", insert, insertOf(-1, "x"), "put in\n"},

		{
			[]string{"rm", "/memories/a"},
			"", &memoryv1.DeleteResponse{Result: text("gone")},
			&memoryv1.DeleteRequest{Namespace: "default", Path: "/memories/a"}, "gone\n",
		},
		{
			[]string{"mv", "/memories/a", "/memories/b"},
			"", &memoryv1.RenameResponse{Result: text("moved")},
			&memoryv1.RenameRequest{Namespace: "default", OldPath: "/memories/a", NewPath: "/memories/b"}, "moved\n",
		},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			s := startService(t)
			s.unary = always(test.resp, nil)
			got, want := s.run(t, test.stdin, test.args...), outcome{exitOK, test.wantText, ""}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]proto.Message{test.wantReq}, s.requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorResult(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.ViewResponse{
		Result: errorText(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND, "The path x does not exist."),
	}, nil)

	got, want := s.run(t, "", "view", "x"), outcome{exitErrorResult, "", "The path x does not exist.\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	got = s.run(t, "", "view", "x", "-o", "json")
	want = outcome{exitErrorResult, `{"result":{"isError":true,"reason":"REASON_VIEW_PATH_NOT_FOUND",` +
		`"content":[{"text":"The path x does not exist."}]},"revision":"0","entries":[]}` + "\n", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("json (-want +got):\n%s", diff)
	}
}

func TestView_Content(t *testing.T) {
	image := &memoryv1.Content{Block: &memoryv1.Content_Image{
		Image: &memoryv1.Image{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")},
	}}
	noted := text("a text")
	noted.Content = append(noted.Content, text("Note: a note").GetContent()...)
	tests := []struct {
		name           string
		result         *memoryv1.ToolResult
		piped, visible string
	}{
		{
			"bytes", text("a\x1b[31m\r\n\tb\u009b\x7f\u200d"), "a\x1b[31m\r\n\tb\u009b\x7f\u200d\n",
			"a\\u001b[31m\\u000d\n\tb\\u009b\\u007f\u200d\n",
		},
		{"note", noted, "a text\nNote: a note\n", "a text\nNote: a note\n"},
		{
			"image", &memoryv1.ToolResult{Content: []*memoryv1.Content{image}},
			"Image: image/png, 8 bytes. To save it: memoryctl get PATH > FILE\n",
			"Image: image/png, 8 bytes. To save it: memoryctl get PATH > FILE\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = always(&memoryv1.ViewResponse{Result: test.result}, nil)
			if got := s.run(t, "", "view", "x").Stdout; got != test.piped {
				t.Errorf("piped: got %q, want %q", got, test.piped)
			}
			if got := s.runOnTerminal(t, "", "view", "x").Stdout; got != test.visible {
				t.Errorf("on a terminal: got %q, want %q", got, test.visible)
			}
		})
	}
}

func TestErrorResult_OnTerminal(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.StrReplaceResponse{
		Result: errorText(memoryv1.Reason_REASON_STR_REPLACE_NO_MATCH, "old_str `\x1b[2J` did not appear"),
	}, nil)
	got := s.runOnTerminal(t, "", "str-replace", "/memories/a", "\x1b[2J", "x")
	want := outcome{exitErrorResult, "", "old_str `\\u001b[2J` did not appear\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPut(t *testing.T) {
	// More than what is read before the call begins.
	content := strings.Repeat("0123456789abcde\x00", maxFileBytes/16) + "the end\xff"
	var stored string
	s := startService(t)
	s.put = func(_ *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
		all, err := io.ReadAll(r)
		stored = string(all)
		return &memoryv1.PutResponse{Result: text("stored"), Revision: 7}, err
	}
	got, want := s.run(t, content, "put", "/memories/a.bin"), outcome{exitOK, "stored\n", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if stored != content {
		t.Errorf("got %d bytes stored, want the %d that were sent", len(stored), len(content))
	}
	wantReqs := []proto.Message{&memoryv1.PutHeader{Namespace: "default", Path: "/memories/a.bin"}}
	if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPut_RefusedEarly(t *testing.T) {
	s := startService(t)
	s.put = func(*memoryv1.PutHeader, io.Reader) (*memoryv1.PutResponse, error) {
		return &memoryv1.PutResponse{Result: errorText(memoryv1.Reason_REASON_FILE_TOO_LARGE, "Error: too large")}, nil
	}
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	got := run(t, endless, "--addr", s.addr, "put", "/memories/a")
	want := outcome{exitErrorResult, "", "Error: too large\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestGet(t *testing.T) {
	ok := &memoryv1.GetHeader{Result: &memoryv1.ToolResult{}, Revision: 3}
	tests := []struct {
		name   string
		header *memoryv1.GetHeader
		chunks []string
		err    error
		want   outcome
	}{
		{"bytes", ok, []string{"\x00\x1b", "\xff\n"}, nil, outcome{exitOK, "\x00\x1b\xff\n", ""}},
		{"empty", ok, nil, nil, outcome{exitOK, "", ""}},
		{
			"error result",
			&memoryv1.GetHeader{Result: errorText(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND, "no such path")},
			nil, nil,
			outcome{exitErrorResult, "", "no such path\n"},
		},
		{
			"broken off", ok,
			[]string{"a part"},
			statusError(codes.DataLoss, "STORE_CORRUPT", "the store is damaged", true),
			outcome{exitOther, "", "memoryctl: the store is damaged (DATA_LOSS, STORE_CORRUPT)\n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.get = func(*memoryv1.GetRequest) (*memoryv1.GetHeader, []string, error) {
				return test.header, test.chunks, test.err
			}
			if diff := cmp.Diff(test.want, s.run(t, "", "get", "/memories/a")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantReqs := []proto.Message{&memoryv1.GetRequest{Namespace: "default", Path: "/memories/a"}}
			if diff := cmp.Diff(wantReqs, s.requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInputFails(t *testing.T) {
	s := startService(t)
	s.put = func(*memoryv1.PutHeader, io.Reader) (*memoryv1.PutResponse, error) {
		return nil, errors.New("called")
	}
	for _, line := range []string{"create /memories/a", "insert /memories/a 0 -", "put /memories/a"} {
		t.Run(line, func(t *testing.T) {
			stdin := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errBroken))
			got := run(t, stdin, append([]string{"--addr", s.addr}, strings.Fields(line)...)...)
			want := outcome{exitOther, "", "memoryctl: read standard input: broken\n"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("got requests %v, want none", got)
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 5632: "5.5K", 12595: "12.3K", 1075: "1.0K", 1076: "1.1K",
		1<<20 - 1: "1024.0K", 1 << 20: "1.0M", 1<<30 - 1: "1024.0M", 1 << 30: "1.0G", 1 << 40: "1024.0G",
		1<<63 - 1: "8589934592.0G",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d): got %s, want %s", n, got, want)
		}
	}
}
