package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func TestEvent_Line(t *testing.T) {
	full := Event{
		Time: noon, Principal: "agent-7", Credential: "token sha256:9f86d081884c", Peer: "10.0.0.7:51814", Session: "run-12", RequestID: "toolu_01",
		Method: "/memoryd.v1.MemoryService/Rename", Command: "rename", Namespace: "acme/user-42",
		Path: "/memories/a.md", NewPath: "/memories/b.md",
		Settings: NewSettings(map[string]string{"secrets": "off", "max_files": "2", "view_max_chars": "default"}),
		Outcome:  OutcomeOK, Revision: 17,
	}
	for _, tt := range []struct {
		name  string
		event Event
		want  string
	}{
		{
			"whole", full,
			`{"time":"2026-03-01T12:00:00.123456789Z","principal":"agent-7",` +
				`"credential":"token sha256:9f86d081884c","peer":"10.0.0.7:51814",` +
				`"session":"run-12","request_id":"toolu_01","method":"/memoryd.v1.MemoryService/Rename",` +
				`"command":"rename","namespace":"acme/user-42","path":"/memories/a.md","new_path":"/memories/b.md",` +
				`"settings":{"max_files":"2","secrets":"off","view_max_chars":"default"},"outcome":"ok","revision":17}`,
		},
		{
			"denied",
			Event{Time: noon, Method: "/m", Outcome: "UNAUTHENTICATED"},
			`{"time":"2026-03-01T12:00:00.123456789Z","principal":"","method":"/m","outcome":"UNAUTHENTICATED"}`,
		},
		{
			"another zone",
			Event{Time: noon.In(time.FixedZone("", 3600))},
			`{"time":"2026-03-01T12:00:00.123456789Z","principal":"","method":"","outcome":""}`,
		},
		{
			"no time",
			Event{Time: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)},
			`{"time":"0001-01-01T00:00:00Z","principal":"","method":"","outcome":""}`,
		},
		{
			"no HTML",
			Event{Time: noon, Path: "/memories/<a>&b"},
			`{"time":"2026-03-01T12:00:00.123456789Z","principal":"","method":"","path":"/memories/<a>&b","outcome":""}`,
		},
		{
			"control characters",
			Event{Time: noon, Path: "a\nb\x1b[2J\x7f\u009b\u202e\u2028\U000E0001\xff ü"},
			`{"time":"2026-03-01T12:00:00.123456789Z","principal":"","method":"",` +
				`"path":"a\nb\u001b[2J\u007f\u009b\u202e\u2028\udb40\udc01` + "\uFFFD ü" + `","outcome":""}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.event.line()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		name, s string
		limit   int
		want    string
	}{
		{"short", "abc", 10, "abc"},
		{"just fits", strings.Repeat("a", 10), 10, strings.Repeat("a", 10)},
		{"too long", strings.Repeat("a", 11), 10, "aaaaaaa…"},
		{"cut between characters", "aaaaaaüüü", 10, "aaaaaa…"},
		{"invalid", "a\xffb", 10, "a\uFFFDb"},
		{"grows by being made valid", "\xffa\xffa\xffa", 10, "\uFFFDa\uFFFD…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := bounded(tt.s, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Every string of an event has a limit, of which this is the list.
func TestEvent_Bounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	got := Event{
		Principal: long, Credential: long, Peer: long, Session: long, RequestID: long, Method: long, Command: long,
		Namespace: long, Path: long, NewPath: long, Outcome: long,
	}.bounded()
	cut := func(n int) string { return long[:n-len("…")] + "…" }
	want := Event{
		Principal: cut(256), Credential: cut(300), Peer: cut(256), Session: cut(128), RequestID: cut(128), Method: cut(256),
		Command: cut(256), Namespace: cut(200), Path: cut(1024), NewPath: cut(1024), Outcome: cut(256),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewSettings(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("s%02d", i)] = strings.Repeat("x", 5000)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(NewSettings(many)), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 32 || len(got["s00"]) != 256 || got["s31"] == "" {
		t.Errorf("got %d settings, one of %d bytes, want the first 32 of 256 bytes", len(got), len(got["s00"]))
	}
	if got := NewSettings(nil); got != "" {
		t.Errorf("got %s for none, want nothing", got)
	}
}

// Any event is one printable line of JSON that reads back.
func FuzzEvent_Line(f *testing.F) {
	f.Add("agent", "acme", "/memories/a\n", "ok\xff", int64(0), int64(7))
	f.Add("\u2028", strings.Repeat("ü", 200), "\U000E0001\x00\x7f", "\\u0000\"", int64(1)<<60, int64(-1))
	f.Add("\xed\xa0\x80", "", "</script>", "\u009b", int64(-1)<<62, int64(1)<<62)
	f.Fuzz(func(t *testing.T, principal, namespace, path, outcome string, seconds, revision int64) {
		e := Event{
			Time: time.Unix(seconds, 5), Principal: principal, Peer: outcome, Session: path, RequestID: namespace,
			Method: outcome, Command: principal, Namespace: namespace, Path: path, NewPath: path + principal,
			Outcome: outcome, Revision: revision, Credential: path,
			Settings: NewSettings(map[string]string{principal: path, namespace: outcome}),
		}
		line, err := e.line()
		if err != nil {
			t.Fatal(err)
		}
		text, ok := bytes.CutSuffix(line, []byte("\n"))
		if !ok || !utf8.Valid(text) || bytes.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("got %q, want one printable line", line)
		}
		var got Event
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("read back: %v", err)
		}
		if diff := cmp.Diff(e.bounded(), got); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	})
}
