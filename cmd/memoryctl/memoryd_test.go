package main

import (
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// TestWithMemoryd runs the commands against the service itself, one after the other.
func TestWithMemoryd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	addr := listener.Addr().String()
	ids := regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

	const png = "\x89PNG\r\n\x1a\n"
	steps := []struct {
		args  []string
		stdin string
		want  outcome
	}{
		{[]string{"view", "/memories"}, "", outcome{exitOK, "Here're the files and directories up to 2 levels deep in " +
			"/memories, excluding hidden items and node_modules:\n0B\t/memories\n", ""}},
		{[]string{"create", "/memories/notes.md"}, "one\ntwo\nthree", outcome{
			exitOK,
			"File created successfully at: /memories/notes.md\n", "",
		}},
		{[]string{"create", "/memories/notes.md", "again"}, "", outcome{
			exitErrorResult, "",
			"Error: File /memories/notes.md already exists\n",
		}},
		{[]string{"view", "/memories/notes.md", "--range", "2:"}, "", outcome{
			exitOK,
			"Here's the content of /memories/notes.md with line numbers:\n     2\ttwo\n     3\tthree\n", "",
		}},
		{[]string{"str-replace", "/memories/notes.md", "two", "2"}, "", outcome{
			exitOK,
			"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
				"     1\tone\n     2\t2\n     3\tthree\n", "",
		}},
		{[]string{"insert", "/memories/notes.md", "0", "-"}, "# Notes\n", outcome{
			exitOK,
			"The file /memories/notes.md has been edited.\n", "",
		}},
		{[]string{"get", "/memories/notes.md"}, "", outcome{exitOK, "# Notes\none\n2\nthree", ""}},
		{[]string{"put", "/memories/.hidden/logo.png"}, png, outcome{
			exitOK,
			"File created successfully at: /memories/.hidden/logo.png\n", "",
		}},
		{[]string{"view", "/memories/.hidden/logo.png"}, "", outcome{
			exitOK,
			"Image: image/png, 8 bytes. To save it: memoryctl get PATH > FILE\n", "",
		}},
		{[]string{"get", "/memories/.hidden/logo.png"}, "", outcome{exitOK, png, ""}},
		{[]string{"tree"}, "", outcome{exitOK, `    SIZE  MODIFIED              NAME
     27B                        /memories
      8B  TIME  ├── .hidden/
      8B  TIME  │   └── logo.png
     19B  TIME  └── notes.md

1 directory, 2 files
`, ""}},
		{[]string{"tree", "/memories/none"}, "", outcome{
			exitErrorResult, "",
			"The path /memories/none does not exist. Please provide a valid path.\n",
		}},
		{[]string{"mv", "/memories/.hidden", "/memories/shown"}, "", outcome{
			exitOK,
			"Successfully renamed /memories/.hidden to /memories/shown\n", "",
		}},
		{[]string{"view", "notes.md"}, "", outcome{
			exitErrorResult, "",
			"Error: Path must start with /memories, got: notes.md\n",
		}},
		{[]string{"namespace", "list"}, "", outcome{exitOK, `NAME     FILES  SIZE  REVISION  CREATED
default  2      27B   5         TIME
`, ""}},
		{
			[]string{"namespace", "set", "default", "--create-on-existing=overwrite", "--view-max-chars=100"},
			"",
			outcome{exitOK, `Name:      default
Files:     2 of 5000
Size:      27B of 1.0G
Revision:  6
Created:   TIME

SETTING              VALUE       SET BY
create-on-existing   overwrite   namespace
view-max-chars       100         namespace
max-file-bytes       1048576     service
max-files            5000        service
max-total-bytes      1073741824  service
calls-per-second     0           service
expire-unread-after  0s          service
secrets              report      service
`, ""},
		},
		{[]string{"create", "/memories/notes.md", "again"}, "", outcome{
			exitOK,
			"File created successfully at: /memories/notes.md\n", "",
		}},
		{[]string{"namespace", "set", "default", "--create-on-existing=default"}, "", outcome{exitOK, `Name:      default
Files:     2 of 5000
Size:      13B of 1.0G
Revision:  8
Created:   TIME

SETTING              VALUE       SET BY
create-on-existing   error       service
view-max-chars       100         namespace
max-file-bytes       1048576     service
max-files            5000        service
max-total-bytes      1073741824  service
calls-per-second     0           service
expire-unread-after  0s          service
secrets              report      service
`, ""}},
		{
			[]string{"tool"},
			`{"command":"delete","path":"/memories/shown"}` + "\n" +
				`{"type":"tool_use","id":"toolu_1","input":{"command":"view"}}` + "\nnot JSON\n",
			outcome{exitOK, `{"type":"tool_result","tool_use_id":"","content":"Successfully deleted /memories/shown",` +
				`"is_error":false}
{"type":"tool_result","tool_use_id":"toolu_1","content":"Error: Missing required parameter: path","is_error":true}
{"type":"tool_result","tool_use_id":"","content":"Error: The input must be a JSON object with a command: ` +
				`view, create, str_replace, insert, delete or rename","is_error":true}
`, ""},
		},
		{[]string{"rm", "/memories/notes.md"}, "", outcome{exitOK, "Successfully deleted /memories/notes.md\n", ""}},
		{[]string{"namespace", "delete", "default", "--yes"}, "", outcome{exitOK, "Deleted namespace default\n", ""}},
	}
	for _, step := range steps {
		got := run(t, strings.NewReader(step.stdin), append([]string{"--addr", addr}, step.args...)...)
		got.Stdout = times.ReplaceAllString(got.Stdout, "TIME")
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", step.args, diff)
		}
	}
	for _, test := range []struct{ line, want string }{
		{"namespace delete default --yes", "(NOT_FOUND, NAMESPACE_NOT_FOUND, request id ID)\n"},
		{"namespace set default --max-file-bytes=0", "(INVALID_ARGUMENT, INVALID_REQUEST, request id ID)\n"},
		{"view /memories -n UPPER", "(INVALID_ARGUMENT, INVALID_NAMESPACE, request id ID)\n"},
		{"get /memories", "(INVALID_ARGUMENT, INVALID_REQUEST, request id ID)\n"},
	} {
		got := run(t, strings.NewReader(""), append([]string{"--addr", addr}, strings.Fields(test.line)...)...)
		got.Stderr = ids.ReplaceAllString(got.Stderr, "ID")
		if got.Status != exitOther || got.Stdout != "" || !strings.HasSuffix(got.Stderr, test.want) {
			t.Errorf("%s: got %+v, want status %d and %s", test.line, got, exitOther, test.want)
		}
	}
}
