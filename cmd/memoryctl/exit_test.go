package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestUsage(t *testing.T) {
	s := startService(t)
	latin1 := t.TempDir() + "/latin1"
	if err := os.WriteFile(latin1, []byte("caf\xe9"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		line  string // split at blanks; '' is an empty argument
		stdin string
		want  string // the first line without the name of the program
	}{
		{"bogus", "", `unknown command "bogus" for "memoryctl"`},
		{"veiw x", "", `unknown command "veiw" for "memoryctl"`},
		{"namespace bogus", "", `unknown command "bogus" for "memoryctl namespace"`},
		{"view x --bogus", "", `unknown flag: --bogus`},
		{"--bogus", "", `unknown flag: --bogus`},
		{"view", "", `0 arguments given, but it is: memoryctl view PATH`},
		{"view x y", "", `2 arguments given, but it is: memoryctl view PATH`},
		{"view x --range 5", "", `invalid argument "5" for "--range" flag: want A:B, A: or :B, lines counted from 1`},
		{"view x --range a:b", "", `invalid argument "a:b" for "--range" flag: want A:B, A: or :B, lines counted from 1`},
		{"view x -o yaml", "", `--output "yaml": want table or json`},
		{"view x --timeout 0s", "", `--timeout 0s: want more than 0, for example 30s`},
		{"view x --timeout 5", "", `invalid argument "5" for "--timeout" flag: time: missing unit in duration "5"`},
		{"view x --addr ''", "", `--addr is empty`},
		{"view x --addr nowhere", "", `dial memoryd: bad target "nowhere": want host:port (missing port in address)`},
		{"view x --token-file /nowhere/t", "", `--token-file: stat /nowhere/t: no such file or directory`},
		{
			"view x --tls-ca /nowhere/ca.pem", "",
			`dial memoryd: read certificate authorities: open /nowhere/ca.pem: no such file or directory`,
		},
		{"view x --tls-cert c.pem", "", `--tls-cert c.pem: its key is missing: give it with --tls-key`},
		{"view x --token secret", "", `unknown flag: --token`},
		{"view x -n ''", "", `--namespace is empty`},
		{"view x -n \xff", "", `--namespace "\xff" is not valid UTF-8`},
		{"view \xff", "", `argument "\xff" is not valid UTF-8`},
		{"create x y --file z", "", `TEXT and --file exclude each other`},
		{"create x --file /nowhere/z", "", `--file: open /nowhere/z: no such file or directory`},
		{"create x --file " + latin1, "", latin1 + `: the text is not valid UTF-8; "memoryctl put" stores any bytes`},
		{"create x -", "\xff", `standard input: the text is not valid UTF-8; "memoryctl put" stores any bytes`},
		{"create x", strings.Repeat("x", maxTextBytes+1), `standard input: the text has more than 16777216 bytes`},
		{"insert x one y", "", `LINE "one": want a whole number; 0 is the top`},
		{"insert x -1 y", "", `unknown shorthand flag: '1' in -1`},
		{"str-replace x", "", `1 argument given, but it is: memoryctl str-replace PATH OLD [NEW]`},
		{"get x -o json", "", `get writes the bytes of the file and has no -o json`},
		{"tool x", "", `unknown command "x" for "memoryctl tool"`},
		{"tool --session " + strings.Repeat("x", 129), "", `--session has more than 128 bytes`},
		{"namespace set x", "", `no setting given`},
		{
			"namespace set x --create-on-existing=maybe", "",
			`--create-on-existing "maybe": want error, overwrite or default`,
		},
		{"namespace set x --view-max-chars=-1", "", `--view-max-chars "-1": want a whole number or default`},
		{"namespace set x --max-file-bytes=1MiB", "", `--max-file-bytes "1MiB": want a whole number or default`},
		{"namespace set x --max-file-bytes ''", "", `--max-file-bytes "": want a whole number or default`},
		{
			"namespace set x --expire-unread-after=soon", "",
			`--expire-unread-after "soon": want a duration such as 30d or 12h, or default`,
		},
		{"namespace set x --expire-unread-after=-1h", "", `--expire-unread-after "-1h": want a duration such as 30d or 12h, or default`},
		{
			"expiry plan --within 1", "",
			`invalid argument "1" for "--within" flag: want a duration such as 30d, 12h or 30d12h`,
		},
		{"namespace show ''", "", `NAME is empty`},
		{"namespace set '' --view-max-chars=0", "", `NAME is empty`},
		{"namespace delete '' --yes", "", `NAME is empty`},
		{"namespace delete x", "x\n", `there is no terminal to ask on: say --yes`},
	}
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			args := strings.Fields(test.line)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "''", "")
			}
			got := s.run(t, test.stdin, args...)
			first, rest, _ := strings.Cut(got.Stderr, "\n")
			if got, want := first, "memoryctl: "+test.want; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if !strings.Contains(rest, "--help' for usage.\n") {
				t.Errorf("got %q, want it to name the help", rest)
			}
			if got.Status != exitUsage || got.Stdout != "" {
				t.Errorf("got status %d and output %q, want %d and none", got.Status, got.Stdout, exitUsage)
			}
		})
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("got requests %v, want none", got)
	}
}

func TestUsage_OnTerminal(t *testing.T) {
	s := startService(t)
	for _, test := range []struct{ line, want string }{
		{"create x", "no text: give TEXT, or - to type it and end with Ctrl-D"},
		{"insert x 0", "no text: give TEXT, or - to type it and end with Ctrl-D"},
		{"put x", "put reads standard input: memoryctl put PATH < FILE"},
	} {
		t.Run(test.line, func(t *testing.T) {
			got := s.runOnTerminal(t, "typed\n", strings.Fields(test.line)...)
			if first, _, _ := strings.Cut(got.Stderr, "\n"); first != "memoryctl: "+test.want || got.Status != exitUsage {
				t.Errorf("got %d, %q, want %d, %q", got.Status, first, exitUsage, "memoryctl: "+test.want)
			}
		})
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("got requests %v, want none", got)
	}
}

func TestStatus(t *testing.T) {
	const doubt = "; the change may or may not have been made"
	tests := []struct {
		name           string
		err            error
		status         int
		reads, changes string // what view and rm say
	}{
		{
			"of the service", statusError(codes.FailedPrecondition, "STORE_READ_ONLY", "the store is read-only", true),
			exitOther,
			"the store is read-only (FAILED_PRECONDITION, STORE_READ_ONLY)",
			"the store is read-only (FAILED_PRECONDITION, STORE_READ_ONLY)",
		},
		{
			"unauthenticated", statusError(codes.Unauthenticated, "UNAUTHENTICATED", "send metadata", true),
			exitOther,
			"memoryd does not know who calls: give a valid token with MEMORYCTL_TOKEN or --token-file, or a certificate " +
				"with --tls-cert and --tls-key (UNAUTHENTICATED)",
			"memoryd does not know who calls: give a valid token with MEMORYCTL_TOKEN or --token-file, or a certificate " +
				"with --tls-cert and --tls-key (UNAUTHENTICATED)",
		},
		{
			"denied", statusError(codes.PermissionDenied, "NOT_PERMITTED", "access is not permitted", true),
			exitOther,
			"access is not permitted: ask whoever runs memoryd for a right in namespace default (-n says which) " +
				"(PERMISSION_DENIED, NOT_PERMITTED)",
			"access is not permitted: ask whoever runs memoryd for a right in namespace default (-n says which) " +
				"(PERMISSION_DENIED, NOT_PERMITTED)",
		},
		{
			"unavailable, by the service", statusError(codes.Unavailable, "STORE_BUSY", "the store is busy", true),
			exitOther,
			"the store is busy (UNAVAILABLE, STORE_BUSY)",
			"the store is busy (UNAVAILABLE, STORE_BUSY)",
		},
		{
			"unknown", statusError(codes.Unknown, "OUTCOME_UNKNOWN", "the answer of the store was lost", false),
			exitOther,
			"the answer of the store was lost (UNKNOWN, OUTCOME_UNKNOWN)",
			"the answer of the store was lost (UNKNOWN, OUTCOME_UNKNOWN)" + doubt,
		},
		{
			"of something between", status.Error(codes.Internal, "proxy on fire"),
			exitOther,
			"proxy on fire (INTERNAL)",
			"proxy on fire (INTERNAL)" + doubt,
		},
		{
			"lost", status.Error(codes.Unavailable, "gone"),
			exitUnreachable,
			"memoryd cannot be reached at ADDR: start memoryd there, or say where it is with --addr or " +
				"MEMORYCTL_ADDR (gone)",
			"memoryd cannot be reached at ADDR: start memoryd there, or say where it is with --addr or " +
				"MEMORYCTL_ADDR (gone)" + doubt,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = always(nil, test.err)
			for _, c := range []struct{ command, text string }{{"view", test.reads}, {"rm", test.changes}} {
				got := s.run(t, "", c.command, "/memories/a", "--timeout", "500ms")
				want := outcome{test.status, "", "memoryctl: " + strings.ReplaceAll(c.text, "ADDR:", s.addr+":") + "\n"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.command, diff)
				}
			}
		})
	}
}

// TestStatus_RequestID tells by which id the log of memoryd has the call.
func TestStatus_RequestID(t *testing.T) {
	for id, want := range map[string]string{"9b6c1f0d": "9b6c1f0d", "\x1b[2J\n": "?[2J?"} {
		st, err := status.Convert(statusError(codes.Internal, "INTERNAL", "internal error", true)).
			WithDetails(&errdetails.RequestInfo{RequestId: id})
		if err != nil {
			t.Fatal(err)
		}
		s := startService(t)
		s.unary = always(nil, st.Err())
		want := outcome{exitOther, "", "memoryctl: internal error (INTERNAL, request id " + want + ")\n"}
		if diff := cmp.Diff(want, s.run(t, "", "view", "/memories/a")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestDenied names the namespace that each command was about: it is easy to forget -n.
func TestDenied(t *testing.T) {
	const ask = "no: ask whoever runs memoryd for "
	tests := []struct{ line, reason, want string }{
		{"view /memories", "NOT_PERMITTED", ask + "a right in namespace default (-n says which)"},
		{"-n acme/a tree", "NOT_PERMITTED", ask + "a right in namespace acme/a (-n says which)"},
		{"-n acme/a rm /memories/b", "NAMESPACE_READ_ONLY", ask + "the right to write in namespace acme/a (-n says which)"},
		{"screen", "NOT_PERMITTED", ask + "a right in namespace default (-n says which)"},
		{"namespace show acme/b", "NOT_PERMITTED", ask + "a right in namespace acme/b"},
		{"namespace set acme/b --max-files=1", "NOT_PERMITTED", ask + "a right in namespace acme/b: admin"},
		{"-n acme/a namespace delete acme/b --yes", "NOT_PERMITTED", ask + "a right in namespace acme/b: admin"},
		{"namespace list", "NOT_PERMITTED", ask + "a right to it"},
	}
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			s := startService(t)
			s.unary = always(nil, statusError(codes.PermissionDenied, test.reason, "no", true))
			want := outcome{exitOther, "", "memoryctl: " + test.want + " (PERMISSION_DENIED, " + test.reason + ")\n"}
			if diff := cmp.Diff(want, s.run(t, "", strings.Fields(test.line)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDenied_AllNamespaces names the namespace that could not be screened.
func TestDenied_AllNamespaces(t *testing.T) {
	s := startService(t)
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		if screen, ok := req.(*memoryv1.ScreenRequest); !ok {
			return &memoryv1.ListNamespacesResponse{Namespaces: []*memoryv1.Namespace{{Name: "a"}, {Name: "b"}}}, nil
		} else if screen.GetNamespace() == "a" {
			return &memoryv1.ScreenResponse{}, nil
		}
		return nil, statusError(codes.PermissionDenied, "NOT_PERMITTED", "no", true)
	}
	want := outcome{exitOther, "", "memoryctl: no: ask whoever runs memoryd for a right in namespace b " +
		"(PERMISSION_DENIED, NOT_PERMITTED)\n"}
	if diff := cmp.Diff(want, s.run(t, "", "screen", "--all-namespaces")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnreachable(t *testing.T) {
	// A port that was just free and on which nobody listens.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"view /memories", "create /memories/a x", "put /memories/a", "get /memories/a", "tree", "namespace list",
		"namespace delete a --yes",
	} {
		t.Run(line, func(t *testing.T) {
			got := run(t, strings.NewReader(""), append([]string{"--addr", addr}, strings.Fields(line)...)...)
			prefix := "memoryctl: memoryd cannot be reached at " + addr + ": start memoryd there"
			if got.Status != exitUnreachable || !strings.HasPrefix(got.Stderr, prefix) {
				t.Errorf("got %d, %q, want %d, %q...", got.Status, got.Stderr, exitUnreachable, prefix)
			}
			if strings.Contains(got.Stderr, "may or may not") || strings.Count(got.Stderr, "\n") != 1 {
				t.Errorf("got %q, want one line without doubt: nothing was sent", got.Stderr)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	s := startService(t)
	s.unary = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	want := fmt.Sprintf("memoryctl: memoryd at %s did not answer within 50ms: try a longer --timeout or another --addr"+
		"; the change may or may not have been made\n", s.addr)
	got := s.run(t, "", "rm", "/memories/a", "--timeout", "50ms")
	if diff := cmp.Diff(outcome{exitUnreachable, "", want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An attempt may take a third of --timeout only, and the line says how long was really waited.
func TestTimeout_GivesUpSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cli{addr: "host:7711", timeout: 30 * time.Second}
		began := time.Now()
		time.Sleep(10*time.Second + 3*time.Millisecond)
		for _, tt := range []struct {
			began time.Time
			want  string
		}{{began, "10s"}, {began.Add(-time.Hour), "30s"}, {time.Time{}, "30s"}} {
			got := c.explain(status.Error(codes.DeadlineExceeded, "too late"), tt.began)
			if want := "memoryd at host:7711 did not answer within " + tt.want + ": "; !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q...", got, want)
			}
		}
	})
}

func TestInterrupt(t *testing.T) {
	for _, test := range []struct{ command, want string }{
		{"view", "memoryctl: interrupted\n"},
		{"rm", "memoryctl: interrupted; the change may or may not have been made\n"},
	} {
		t.Run(test.command, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			s := startService(t)
			s.unary = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
				interrupt()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			var stdout, stderr bytes.Buffer
			args := []string{"--addr", s.addr, test.command, "/memories/a"}
			got := outcome{Run(ctx, args, strings.NewReader(""), &stdout, &stderr), stdout.String(), stderr.String()}
			if diff := cmp.Diff(outcome{exitOther, "", test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A read from standard input that never returns must not keep the program from ending.
func TestInterrupt_WhileReading(t *testing.T) {
	for _, line := range []string{"tool", "create /memories/a -", "put /memories/a"} {
		t.Run(line, func(t *testing.T) {
			s := startService(t)
			stdin, hold := io.Pipe()
			defer func() { _ = hold.Close() }()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			reading := readerFunc(func(p []byte) (int, error) {
				interrupt()
				return stdin.Read(p)
			})
			var stdout, stderr bytes.Buffer
			args := append([]string{"--addr", s.addr}, strings.Fields(line)...)
			got := outcome{Run(ctx, args, reading, &stdout, &stderr), stdout.String(), stderr.String()}
			if diff := cmp.Diff(outcome{exitOther, "", "memoryctl: interrupted\n"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutputFails(t *testing.T) {
	s := startService(t)
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		switch req.(type) {
		case *memoryv1.ListRequest:
			return &memoryv1.ListResponse{Result: &memoryv1.ToolResult{}}, nil
		case *memoryv1.ExecuteRequest:
			return &memoryv1.ExecuteResponse{Result: text("x")}, nil
		default:
			return &memoryv1.ViewResponse{Result: text("x")}, nil
		}
	}
	s.get = func(*memoryv1.GetRequest) (*memoryv1.GetHeader, []string, error) {
		return &memoryv1.GetHeader{Result: &memoryv1.ToolResult{}}, []string{"x"}, nil
	}
	for _, line := range []string{"view x", "view x -o json", "get x", "tree", "tool", "version"} {
		t.Run(line, func(t *testing.T) {
			for _, test := range []struct {
				err  error
				want string
			}{
				{errBroken, "memoryctl: write standard output: broken\n"},
				{&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, ""}, // as with `| head`
			} {
				var stderr bytes.Buffer
				args := append([]string{"--addr", s.addr}, strings.Fields(line)...)
				stdin := strings.NewReader("{}\n")
				if got := Run(t.Context(), args, stdin, errorWriter{test.err}, &stderr); got != exitOther {
					t.Errorf("%v: got status %d, want %d", test.err, got, exitOther)
				}
				if got := stderr.String(); got != test.want {
					t.Errorf("%v: got %q, want %q", test.err, got, test.want)
				}
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	s := startService(t)
	s.unary = always(&memoryv1.ViewResponse{Result: text("x")}, nil)
	tests := []struct {
		name string
		env  string // MEMORYCTL_NAMESPACE
		args []string
		want string
	}{
		{"default", "", nil, "default"},
		{"environment", "from/env", nil, "from/env"},
		{"flag", "from/env", []string{"-n", "from/flag"}, "from/flag"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("MEMORYCTL_ADDR", s.addr)
			t.Setenv("MEMORYCTL_NAMESPACE", test.env)
			got := run(t, strings.NewReader(""), append([]string{"view", "/memories"}, test.args...)...)
			if diff := cmp.Diff(outcome{exitOK, "x\n", ""}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want := &memoryv1.ViewRequest{Namespace: test.want, Path: "/memories"}
			if diff := cmp.Diff(want, s.requests()[i], protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("flag over environment for the address", func(t *testing.T) {
		t.Setenv("MEMORYCTL_ADDR", "bad target")
		if got := s.run(t, "", "view", "/memories"); got.Status != exitOK {
			t.Errorf("got %+v, want status %d", got, exitOK)
		}
	})
}
