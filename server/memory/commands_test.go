package memory_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestFacts(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/d/a.md", FileText: "one\ntwo\n"})
	must(t, m, memory.Create{Path: "/memories/d/b.md", FileText: "x"})

	file := memory.Entry{
		Path: "/memories/d/a.md", Size: 8, Lines: 3, SHA256: sha256.Sum256([]byte("one\ntwo\n")),
		Created: testTime, Modified: testTime, Revision: 1,
	}
	dir := memory.Entry{
		Path: "/memories/d", Dir: true, Size: 9, Created: testTime, Modified: testTime, Revision: 2, FileCount: 2,
	}
	result := must(t, m, memory.View{Path: "/memories/./d/a.md"})
	if diff := cmp.Diff(&file, result.Entry); diff != "" || result.Revision != 2 {
		t.Errorf("view a file: revision %d (-want +got)\n%s", result.Revision, diff)
	}
	result = must(t, m, memory.View{Path: "/memories/d"})
	if diff := cmp.Diff(&dir, result.Entry); diff != "" {
		t.Errorf("view a directory (-want +got)\n%s", diff)
	}
	if len(result.Entries) != 2 || result.Entries[0] != file {
		t.Errorf("view a directory: entries %v", result.Entries)
	}
	result = must(t, m, memory.Rename{OldPath: "/memories/d/a.md", NewPath: "/memories/c.md"})
	file.Path, file.Revision = "/memories/c.md", 3
	if diff := cmp.Diff(&file, result.Entry); diff != "" || result.Revision != 3 {
		t.Errorf("rename: revision %d (-want +got)\n%s", result.Revision, diff)
	}
	result = must(t, m, memory.Delete{Path: "/memories/c.md"})
	if diff := cmp.Diff(&file, result.Entry); diff != "" || result.Revision != 4 {
		t.Errorf("delete: revision %d (-want +got)\n%s", result.Revision, diff)
	}
}

// TestFailureChangesNothing checks that a command that fails leaves no revision, no directory and no time behind.
func TestFailureChangesNothing(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFileBytes: new(int64(4))})
	must(t, m, memory.Create{Path: "/memories/f", FileText: "abc"})
	before, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []memory.Command{
		memory.Create{Path: "/memories/new/deep/g", FileText: "too long"},
		memory.Create{Path: "/memories/f/g"},
		memory.Insert{Path: "/memories/f", InsertLine: 0, InsertText: "too long"},
		memory.StrReplace{Path: "/memories/f", OldStr: "b", NewStr: "too long"},
		memory.Rename{OldPath: "/memories/missing", NewPath: "/memories/x/y"},
		memory.Rename{OldPath: "/memories/f", NewPath: "/memories/f/y"},
		memory.Delete{Path: "/memories/missing"},
		memory.Put{Path: "/memories/new/x", Data: make([]byte, 5)},
	} {
		if result := do(t, m, cmd); !result.IsError() || result.Revision != 0 || result.Entry != nil {
			t.Errorf("%#v gave %+v", cmd, result)
		}
	}
	after, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("changed (-before +after)\n%s", diff)
	}
}

// TestShrink checks that a file that is larger than a limit set later can be made smaller.
func TestShrink(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/f", FileText: strings.Repeat("x", 100) + "y"})
	change := memory.SettingsChange{Settings: memory.Settings{MaxFileBytes: new(int64(10))}}
	_, err := m.UpdateSettings(t.Context(), namespace, change, "")
	if err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.StrReplace{Path: "/memories/f", OldStr: "xy", NewStr: "z"})
	if result := do(t, m, memory.StrReplace{Path: "/memories/f", OldStr: "z", NewStr: "zz"}); !result.IsError() {
		t.Error("a file beyond its limit grew")
	}
}

// TestLargeContents writes and edits files of many chunks, and reads them back.
func TestLargeContents(t *testing.T) {
	m := newMemory(t, memory.Settings{MaxFileBytes: new(int64(memory.MaxFileBytes)), ViewMaxChars: new(int64(0))})
	for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, memory.MaxFileBytes} {
		data := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
		must(t, m, memory.Put{Path: "/memories/f", Data: data})
		_, got, err := m.Read(t.Context(), namespace, "/memories/f")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d bytes, %v", size, len(got), err)
		}
	}
	if result := do(t, m, memory.Put{Path: "/memories/f", Data: make([]byte, memory.MaxFileBytes+1)}); !result.IsError() {
		t.Error("a file beyond the largest was stored")
	}
}

// TestManyMatches checks that a long run of one letter, in which a pattern starts almost everywhere, is searched in
// linear time: the obvious search would take hours.
func TestManyMatches(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/f", FileText: strings.Repeat("q", 1<<20)})
	result := do(t, m, memory.StrReplace{Path: "/memories/f", OldStr: strings.Repeat("q", 1<<19)})
	if want := " and 524269 more. Please ensure it is unique"; !strings.HasSuffix(result.Content[0].Text, want) {
		t.Errorf("got %.100s...%s", result.Content[0].Text, result.Content[0].Text[len(result.Content[0].Text)-100:])
	}
}

func TestParseHostileInput(t *testing.T) {
	const malformed = "Error: The input must be a JSON object with a command: " +
		"view, create, str_replace, insert, delete or rename"
	for _, test := range []struct{ name, input, want string }{
		{"empty", "", malformed},
		{"null", "null", malformed},
		{"raw NUL", "{\"command\":\"view\",\"path\":\"/memories\x00\"}", malformed},
		{"more after the value", `{"command":"view","path":"/memories"} {}`, malformed},
		{"other blanks before", "\u00a0{}", malformed},
		{"other blanks after", "{}\v", malformed},
		{"other blanks in a string", `"\u2028{}"`, malformed},
		{
			"other blanks in a range", `{"command":"view","path":"/memories","view_range":"\u00a0[1,2]"}`,
			"Error: Invalid type for parameter: view_range must be an array of two integers",
		},
		{"a string in a string", `"\"{}\""`, malformed},
		{"too deep", strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), malformed},
		{
			"deep field", `{"command":"delete","x":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
			"Error: Missing required parameter: path",
		},
		{
			"10 MB", `{"command":"` + strings.Repeat("v", 10<<20) + `"}`,
			"Error: Unknown command: " + strings.Repeat("v", 1000) + "... [10484760 more characters]. " +
				"Use view, create, str_replace, insert, delete or rename",
		},
		{
			"types come after presence", `{"command":"insert","path":1,"insert_line":1}`,
			"Error: Missing required parameter: insert_text",
		},
		{
			"first type", `{"command":"insert","path":1,"insert_line":"x","insert_text":2}`,
			"Error: Invalid type for parameter: path must be a string",
		},
		{"null command", `{"command":null}`, "Error: Missing required parameter: command"},
		{
			"huge exponent", `{"command":"insert","path":"/memories/f","insert_line":1e1000000000,"insert_text":""}`,
			"Error: Invalid type for parameter: insert_line must be an integer",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, _, result := memory.Parse(test.input)
			if cmd != nil || !result.IsError() || result.Content[0].Text != test.want {
				t.Errorf("got %#v, %.200v; want %.200s", cmd, result, test.want)
			}
		})
	}
}

func TestRepairs(t *testing.T) {
	for _, test := range []struct {
		input string
		want  memory.Command
		kinds []memory.Repair
	}{
		{`{"command":"view","path":"/memories"}`, memory.View{Path: "/memories"}, nil},
		{
			`{"command":"view","path":"/a","path":"/memories","view_range":null}`,
			memory.View{Path: "/memories"},
			[]memory.Repair{memory.RepairNullField},
		},
		{
			`{"command":"view","path":"/memories/f","view_range":"[\"1\", 2.0]"}`,
			memory.View{Path: "/memories/f", Range: &memory.Range{Start: 1, End: 2}},
			[]memory.Repair{memory.RepairStringRange, memory.RepairStringNumber, memory.RepairFloatNumber},
		},
		{
			`{"command":"view","path":"/memories/f","view_range":[1,2,3]}`,
			memory.View{Path: "/memories/f"},
			[]memory.Repair{memory.RepairRangeLength},
		},
		{
			`"{\"command\":\"rename\",\"path\":\"/memories/a\",\"new_path\":\"/memories/b\"}"`,
			memory.Rename{OldPath: "/memories/a", NewPath: "/memories/b"},
			[]memory.Repair{memory.RepairStringInput, memory.RepairAlias},
		},
		{
			`{"command":"insert","path":"/memories/f","insert_line":" -0 ","insert_text":"x","new_str":{}}`,
			memory.Insert{Path: "/memories/f", InsertText: "x"},
			[]memory.Repair{memory.RepairExtraField, memory.RepairStringNumber},
		},
		{
			`{"command":"create","path":"/memories/f","file_text":"\ud800"}`,
			memory.Create{Path: "/memories/f", FileText: "\ufffd"},
			nil,
		},
	} {
		cmd, kinds, result := memory.Parse(test.input)
		if diff := cmp.Diff(test.want, cmd); diff != "" || result.IsError() {
			t.Errorf("%s: %v (-want +got)\n%s", test.input, result, diff)
		}
		if diff := cmp.Diff(test.kinds, kinds); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.input, diff)
		}
	}
}

// TestParseMemory reads a range of millions of members, which is only looked at to see that there are more than two.
func TestParseMemory(t *testing.T) {
	input := `{"command":"view","path":"/memories","view_range":[` + strings.Repeat("1,", 2<<20) + `1]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cmd, _, _ := memory.Parse(input)
	runtime.ReadMemStats(&after)
	if diff := cmp.Diff(memory.Command(memory.View{Path: "/memories"}), cmd); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(8*len(input)); got > limit {
		t.Errorf("%d bytes allocated for an input of %d, want at most %d", got, len(input), limit)
	}
}

// FuzzExecute checks that any input gets an answer.
func FuzzExecute(f *testing.F) {
	f.Add(`{"command":"create","path":"/memories/a","file_text":"x"}`)
	f.Add(`{"command":"view","path":"/memories","view_range":[1,-1]}`)
	f.Add(`{"command":"insert","path":"/memories/f","insert_line":"1","insert_text":"x\ny"}`)
	f.Add(`{"command":"str_replace","path":"/memories/f","old_str":"b","new_str":"\ud800"}`)
	f.Add(`{"command":"rename","old_path":"/memories/f","new_path":"/memories/f/g"}`)
	f.Add(`"{\"command\":\"delete\",\"path\":\"/memories/f\"}"`)
	f.Add(`{"command":"view","path":"/memories/f","view_range":"[1e0, 2]"}`)
	f.Fuzz(func(t *testing.T, input string) {
		m := newMemory(t, memory.Settings{})
		must(t, m, memory.Create{Path: "/memories/f", FileText: "a\nb\n"})
		cmd, _, result := memory.Parse(input)
		trimmed := strings.Trim(input, " \t\r\n")
		object := strings.HasPrefix(trimmed, "{") && json.Valid([]byte(input))
		if refused := result.Reason == memory.ReasonInputNotObject; refused == object && !strings.HasPrefix(trimmed, `"`) {
			t.Errorf("%q: refused %t, is an object %t", input, refused, object)
		}
		if cmd != nil {
			result = do(t, m, cmd)
		}
		if len(result.Content) != 1 || result.IsError() != (result.Entry == nil) {
			t.Errorf("%q gave %+v", input, result)
		}
		if text := result.Content[0].Text; !utf8.ValidString(text) {
			t.Errorf("%q gave a text that is not UTF-8: %q", input, text)
		}
	})
}

// TestListFile checks that a listing of a file is not an empty directory.
func TestListFile(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	must(t, m, memory.Create{Path: "/memories/f", FileText: "x"})
	result, more, err := m.List(t.Context(), namespace, "/memories/f", "", 10)
	if err != nil || more || len(result.Entries) != 1 || result.Entries[0] != *result.Entry {
		t.Errorf("got %+v, %t, %v", result, more, err)
	}
}

func TestModifiedTime(t *testing.T) {
	now := testTime
	m := newMemoryAt(t, memory.Settings{}, func() time.Time { return now })
	must(t, m, memory.Create{Path: "/memories/d/f", FileText: "x"})
	now = now.Add(time.Hour)
	must(t, m, memory.View{Path: "/memories/d/f"})
	result := must(t, m, memory.Insert{Path: "/memories/d/f", InsertText: "y"})
	if got := result.Entry; !got.Created.Equal(testTime) || !got.Modified.Equal(now) {
		t.Errorf("created %v, modified %v", got.Created, got.Modified)
	}
}

// TestLargeListing views a directory that is too large for one message, with the limit off.
func TestLargeListing(t *testing.T) {
	m := newMemory(t, memory.Settings{ViewMaxChars: new(int64(0)), MaxFiles: new(int64(0))})
	name := strings.Repeat("n", 240)
	const files = 20_000
	for i := 0; i < files; i += memory.MaxBatchCommands {
		var batch []memory.BatchCommand
		for j := i; j < min(i+memory.MaxBatchCommands, files); j++ {
			path := fmt.Sprintf("/memories/%d/%s%05d", j/5000, name, j)
			batch = append(batch, memory.BatchCommand{Command: memory.Create{Path: path}})
		}
		if result, err := m.Batch(t.Context(), namespace, batch, ""); err != nil || result.Failed.IsError() {
			t.Fatal(result, err)
		}
	}
	result := must(t, m, memory.View{Path: "/memories"})
	text := result.Content[0].Text
	if len(text) > 5<<20 || !strings.Contains(text, "<NOTE>To save on context only part of this directory has been shown") {
		t.Errorf("%d bytes: ...%s", len(text), text[len(text)-300:])
	}
}
