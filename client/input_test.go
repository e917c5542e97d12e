package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadInput(t *testing.T) {
	facts := func(command, path string) inputFacts { return inputFacts{command: command, path: path} }
	for _, tt := range []struct {
		name, input string
		want        inputFacts
	}{
		{"view", `{"command":"view","path":"/memories/a"}`, facts("view", "/memories/a")},
		{"blanks", " {\n \"path\" : \"/memories/a\" ,\r\n\t\"command\" : \"view\" } ", facts("view", "/memories/a")},
		{"create", `{"command":"create","path":"/memories/a","file_text":"x"}`, facts("create", "/memories/a")},
		{"rename", `{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`, facts("rename", "/memories/a")},
		{"rename, both", `{"command":"rename","old_path":"/memories/a","path":"/memories/b"}`, facts("rename", "/memories/a")},
		{"rename, alias", `{"command":"rename","path":"/memories/a","new_path":"/memories/b"}`, facts("rename", "/memories/a")},
		{"rename, null", `{"command":"rename","old_path":null,"path":"/memories/a"}`, facts("rename", "/memories/a")},
		{"rename, no string", `{"command":"rename","old_path":1,"path":"/memories/a"}`, facts("rename", "/memories")},
		{"old_path of delete", `{"command":"delete","path":"/memories/a","old_path":"b"}`, facts("delete", "/memories/a")},
		{"JSON string", `"{\"command\":\"view\",\"path\":\"/memories/a\"}"`, facts("view", "/memories/a")},
		{"JSON string, twice", `"\"{\\\"command\\\":\\\"view\\\"}\""`, facts("", "/memories")},
		{
			"last of equal names", `{"command":"view","path":"/memories/a","command":"delete","path":"/memories/b"}`,
			facts("delete", "/memories/b"),
		},
		{"case of names", `{"command":"delete","Command":"view","PATH":"b","path":"/m"}`, facts("delete", "/m")},
		{"case of the command", `{"command":"View"}`, facts("View", "/memories")},
		{"escapes", `{"command":"v\u0069ew","p\u0061th":"/memories/\u00e9\ud800"}`, facts("view", "/memories/é\uFFFD")},
		{"no path", `{"command":"delete"}`, facts("delete", "/memories")},
		{"empty path", `{"command":"delete","path":""}`, facts("delete", "/memories")},
		{
			"longest path", `{"command":"delete","path":"` + strings.Repeat("a", 1024) + `"}`,
			facts("delete", strings.Repeat("a", 1024)),
		},
		{"path too long", `{"command":"delete","path":"` + strings.Repeat("a", 1025) + `"}`, facts("delete", "/memories")},
		{
			"other values", `{"a":[1,{"path":"b"},"]"],"n":1e999,"t":true,"z":null,"command":"view","path":"c"}`,
			facts("view", "c"),
		},
		{
			"deep", `{"command":"view","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"path":"a"}`,
			facts("view", "a"),
		},
		{"something after", `{"command":"view","path":"/memories/a"} x`, facts("", "/memories")},
		{"cut off", `{"command":"view","path":"/memories/a"`, facts("", "/memories")},
		{"array", `[{"command":"view"}]`, facts("", "/memories")},
		{"null", `null`, facts("", "/memories")},
		{"empty", ``, facts("", "/memories")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := readInput([]byte(tt.input)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestMembers_KeepsTheBytes(t *testing.T) {
	input := "{\"a\" :\t{ \"x\": [1.50, \"\\u003c\xff\"] , \"x\":2} ,\"b\"\n: \"s\" , \"c\":-0.0}"
	got, err := members([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{
		"a": json.RawMessage("{ \"x\": [1.50, \"\\u003c\xff\"] , \"x\":2}"),
		"b": json.RawMessage(`"s"`),
		"c": json.RawMessage(`-0.0`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What members takes is what encoding/json takes.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, `{"a":1,}`, `{"a" "b"}`, `{"a":}`, `{,}`, `{"a":[1,]}`, `{"a":[}]}`, `{"a":nul}`, `{"a":01}`,
		`{"a":"\q"}`, `{"a":{"b":{}},"a":"x"}`, `{1:2}`, `[]`, `{}{}`, "\ufeff{}", "{\"\x00\":1}", `{"a":1e999}`, ``,
		`{"a":1:2}`, `{"a"::1}`, `{"a":1 2}`, `{"a":[1 2]}`, `{"a":{"b",1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := members(data)
		var want map[string]json.RawMessage
		if wantErr := json.Unmarshal(data, &want); wantErr != nil || want == nil {
			if err == nil && strings.Count(string(data), "[")+strings.Count(string(data), "{") < 10_000 {
				t.Errorf("members(%q) = %q, want an error like %v", data, got, wantErr)
			}
			return
		}
		if err != nil {
			t.Fatalf("members(%q): %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members(%q) (-want +got):\n%s", data, diff)
		}
	})
}
