package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// memoryWith returns a memory with some files.
func memoryWith(t *testing.T, files map[string]string) *servertest.Server {
	t.Helper()
	s := servertest.New(t)
	for p, text := range files {
		resp, err := s.Client.Create(t.Context(), &memoryv1.CreateRequest{Path: p, FileText: text})
		if err != nil || resp.GetResult().GetIsError() {
			t.Fatalf("create %s: %v, %v", p, resp, err)
		}
	}
	return s
}

// The offline model makes good what others did to the memory.
func TestOffline_Memory(t *testing.T) {
	complete := finished(t, shortItems)
	notes := notesPath(shortItems[0])
	unticked := strings.ReplaceAll(complete[agentkit.FeaturesPath], "- [x]", "- [ ]")
	tests := []struct {
		name   string
		change func(files map[string]string)
		same   bool // it ends as if nothing had been changed
		turns  int  // at most
		open   int  // items that stay open, as nothing is found about them
	}{
		{"nothing", func(map[string]string) {}, true, 5, 0},
		{"the report is gone", func(files map[string]string) { delete(files, reportPath) }, true, 7, 0},
		{"the report lacks its end", func(files map[string]string) {
			files[reportPath], _, _ = strings.Cut(files[reportPath], "\n"+reportTitle(shortItems[1])+"\n")
		}, true, 7, 0},
		{"nothing is ticked", func(files map[string]string) { files[agentkit.FeaturesPath] = unticked }, true, 20, 0},
		{"the progress log is gone", func(files map[string]string) { delete(files, agentkit.ProgressPath) }, true, 8, 0},
		{"the progress log is empty", func(files map[string]string) { files[agentkit.ProgressPath] = "" }, true, 8, 0},
		{"notes are gone", func(files map[string]string) {
			files[agentkit.FeaturesPath] = unticked
			delete(files, notes)
			delete(files, reportPath)
		}, true, 20, 0},
		{"notes lack a document", func(files map[string]string) {
			files[agentkit.FeaturesPath] = unticked
			i := strings.LastIndex(files[notes], "\n## ")
			files[notes] = files[notes][:i]
			delete(files, reportPath)
		}, true, 20, 0},
		{"the checklist is gone", func(files map[string]string) { delete(files, agentkit.FeaturesPath) }, false, 25, 0},
		{"the checklist has no items", func(files map[string]string) {
			files[agentkit.FeaturesPath] = "Goal: To find out\n\nNothing here."
		}, false, 20, 0},
		{"the checklist is twice as long", func(files map[string]string) {
			files[agentkit.FeaturesPath] += "\n- [ ] What about the tea?\n* [ ] What about\n- [ ] ???"
		}, false, 30, 2},
		{"the progress log is very long", func(files map[string]string) {
			files[agentkit.ProgressPath] = strings.Repeat("A line of the log.\n", 3000) + files[agentkit.ProgressPath]
		}, true, 8, 0},
		{"nothing was found by the session before", func(files map[string]string) {
			files[agentkit.FeaturesPath] = unticked
			files[notes] = "# " + shortItems[0] + "\n\n" + nothingFound + "\n"
			delete(files, reportPath)
		}, true, 20, 0},
		{"nothing was found, said twice", func(files map[string]string) {
			files[agentkit.FeaturesPath] = unticked
			files[notes] = nothingFound + "\n" + nothingFound
			delete(files, reportPath)
		}, false, 20, 0},
		{"the start-up file is gone", func(files map[string]string) { delete(files, agentkit.StartupPath) }, false, 5, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{}
			for p, text := range complete {
				files[p] = text
			}
			test.change(files)
			s := memoryWith(t, files)
			api := claudetest.New(t, offlineModel{})
			a, out := newAgent(t, s.Client, api, "x")
			if err := a.run(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := memoryFiles(t, s.Client)
			if n := len(api.Requests()); n > test.turns {
				t.Errorf("got %d turns, want at most %d\n%s", n, test.turns, out)
			}
			if strings.Contains(out.String(), "✗") {
				t.Errorf("a tool call failed:\n%s", out)
			}
			open := 0
			for _, it := range checklist(got[agentkit.FeaturesPath]) {
				title := "\n" + reportTitle(it.text) + "\n"
				switch {
				case !it.ticked:
					open++
					if text := got[notesPath(it.text)]; !strings.HasSuffix(text, "\n"+nothingFound+"\n") {
						t.Errorf("item %q is open, and its notes are %q", it.text, text)
					}
				case test.open == 0 && strings.Count(got[reportPath], title) != 1:
					t.Errorf("item %q is in the report %d times, want once", it.text, strings.Count(got[reportPath], title))
				}
			}
			if open != test.open {
				t.Errorf("got %d open items, want %d\n%s", open, test.open, out)
			}
			if test.same {
				checkFinished(t, complete, got)
			}
		})
	}
}

// What nothing is found about stays open, however little of the conversation is kept, and the session ends.
func TestOffline_NothingFound(t *testing.T) {
	for _, keep := range []int64{1, 3} {
		l, dir := makeLibrary(t, map[string]string{"tea.txt": "The tea is in the blue tin.\n", "moon.txt": "# The moon\n"})
		s := servertest.New(t)
		session := func(name string) (string, map[string]string) {
			a, out := newAgent(t, s.Client, claudetest.New(t, offlineModel{}, claudetest.WithIDPrefix(name)), name)
			a.documents, a.items = l, []string{"Who has chips?", "Which tin has the tea?", "And the moon?", "Where are the gulls?"}
			a.clearing = clearing{trigger: 1, keep: keep}
			a.maxTurns = 60
			if err := a.run(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return out.String(), memoryFiles(t, s.Client)
		}
		ticked := func(files map[string]string) string {
			var ticks strings.Builder
			for _, it := range checklist(files[agentkit.FeaturesPath]) {
				ticks.WriteString(map[bool]string{true: "x", false: "-"}[it.ticked])
			}
			return ticks.String()
		}
		var before map[string]string
		for _, name := range []string{"first", "second"} { // which notes nothing twice
			out, files := session(name)
			want := "  No document has anything about this, so I leave it open: Who has chips? And the moon? Where are the gulls?\n"
			if !strings.Contains(out, want) || !strings.Contains(out, "The tea is in the blue tin. (line 1) in tea.txt") {
				t.Errorf("keep %d: got %s, want %q", keep, out, want)
			}
			if got := ticked(files); got != "-x--" {
				t.Errorf("keep %d: got the items %s, want one that is done", keep, got)
			}
			log := files[agentkit.ProgressPath]
			if want := "## Session " + name + "\n\nDone: No document has anything about this, so I leave it open: Who"; !strings.HasPrefix(log, want) {
				t.Errorf("keep %d: got log %q, want %q", keep, log, want)
			}
			delete(files, agentkit.ProgressPath)
			if diff := cmp.Diff(before, files); before != nil && diff != "" {
				t.Errorf("keep %d: the second session changed what the first left (-first +second):\n%s", keep, diff)
			}
			before = files
		}
		if _, ok := before[reportPath]; ok {
			t.Errorf("keep %d: got a report before all items are done", keep)
		}
		for name, text := range map[string]string{"a.txt": "Gulls are on the roof, and have chips.\n", "b.txt": "The moon is out.\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, files := session("third")
		if got := ticked(files); got != "xxxx" || strings.Contains(files[reportPath], nothingFound) {
			t.Errorf("keep %d: got the items %s, want all done, and a report\n%s\n%s", keep, got, files[reportPath], out)
		}
	}
}

func TestNotesPath(t *testing.T) {
	long := strings.Repeat("Überlänge, ", 20)
	tests := []struct{ item, want string }{
		{"Which lights were dark?", "/memories/notes/light-dark.md"},
		{"Why?", "/memories/notes/item-50d99212.md"},
		{"../../etc/passwd", "/memories/notes/etc-passwd.md"},
		{".hidden", "/memories/notes/hidden.md"},
		{long, "/memories/notes/überlänge.md"},
	}
	for _, test := range tests {
		if got := notesPath(test.item); got != test.want {
			t.Errorf("%q: got %s, want %s", test.item, got, test.want)
		}
	}
	one, two := notesPath("A"+strings.Repeat("bc ä d e f g", 30)+"1"), notesPath("A"+strings.Repeat("bc ä d e f g", 30)+"2")
	for _, p := range []string{one, two} {
		if n := len(path.Base(p)); n > 100 || one == two && n > 0 {
			t.Errorf("got %s and %s, want different names of at most 100 bytes", one, two)
		}
	}
}

func TestTick(t *testing.T) {
	tests := []struct {
		text string
		line int
		old  string
	}{
		{"- [ ] a\n- [ ] b\n", 1, "- [ ] b"},
		{"- [ ] a\n- [ ] ab\n", 0, "- [ ] a\n- [ ] ab"},
		{"- [ ] a\nx\n- [ ] a\n", 2, "x\n- [ ] a\n"},
		{"- [ ] a\n- [ ] a", 1, "- [ ] a\n- [ ] a"},
		{"- [ ] - [ ] -", 0, "- [ ] - [ ] -"},
	}
	for _, test := range tests {
		old, ticked := tick(test.text, test.line)
		if old != test.old {
			t.Errorf("%q: got %q, want %q", test.text, old, test.old)
		}
		if want := strings.Count(old, "[x]") + 1; strings.Count(ticked, "[x]") != want {
			t.Errorf("%q: got %q in its place, want it ticked", test.text, ticked)
		}
	}
}

// What view, search_documents and read_document answer is read as it was meant.
func TestConversation_Results(t *testing.T) {
	l, _ := makeLibrary(t, map[string]string{"a b.md": "# One\n\n2: two\n  three words", "5: x": "two"})
	hits := parseHits(callTool(t, l, toolSearch, `{"query":"two words"}`))
	want := []hit{
		{document: "a b.md", words: 2, best: []line{{number: 3, text: "2: two"}, {number: 4, text: "  three words"}}},
		{document: "5: x", words: 1, best: []line{{number: 1, text: "two"}}},
	}
	if diff := cmp.Diff(want, hits, cmp.AllowUnexported(hit{}, line{})); diff != "" {
		t.Errorf("hits (-want +got):\n%s", diff)
	}
	lines := parseLines(callTool(t, l, toolRead, `{"name":"a b.md"}`))
	wantLines := []line{{number: 1, text: "# One"}, {number: 2}, {number: 3, text: "2: two"}, {number: 4, text: "  three words"}}
	if diff := cmp.Diff(wantLines, lines, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}

	text := "a\n\n\tb\tc\n" + strings.Repeat("long\n", 5000)
	s := memoryWith(t, map[string]string{"/memories/f": text})
	c := &conversation{files: map[string]*file{}, listed: map[string]bool{"/memories/f": true}}
	for calls := c.unseen("/memories/f"); len(calls) > 0; calls = c.unseen("/memories/f") {
		result := s.Client.Handler("").Handle(t.Context(), calls[0].Input)
		c.learn(answered(calls[0], result.Text(), result.IsError))
	}
	if got := c.files["/memories/f"].text; got != text {
		t.Errorf("got a file of %d bytes, want %d", len(got), len(text))
	}
}

// answered is a call and its result.
func answered(call claudetest.Block, text string, isError bool) claudetest.ToolCall {
	return claudetest.ToolCall{
		Name: call.Name, Input: call.Input, Answered: true, Result: claudetest.ToolResult{Text: text, IsError: isError},
	}
}

// Whatever is in the memory and in the results, the model decides something that can be done: a call of a tool that it
// has, or an answer.
func FuzzOffline(f *testing.F) {
	f.Add("- [ ] a\n- [x] b\n", "## b\n", "# a\n", "x.md (1 of 1 word)\n  1: a\n", "x.md, lines 1 to 1 of 1:\n1: a\n", uint8(7))
	f.Add("Goal: g\n- [ ] ?\n- [ ] ?\n", "", "", "", "", uint8(15))
	f.Add("- [ ] - [ ] -", "<response clipped><NOTE>use view_range [2, -1] to see", "\t\n", "x (9 of 1 word)\n", "99999999999999999999: a", uint8(0))
	f.Fuzz(func(t *testing.T, features, progress, notes, search, read string, failing uint8) {
		features = strings.ToValidUTF8(features, "") // as all that memoryd gives
		const prefix = "Here's the content of it with line numbers:\n     1\t"
		c := &conversation{
			files: map[string]*file{}, searched: map[string]bool{}, searches: map[string][]hit{},
			documents: map[string]reading{}, question: "q",
		}
		learn := func(i int, call claudetest.Block, result string) {
			c.learn(answered(call, result, failing>>i&1 != 0))
		}
		learn(0, view("/memories"), "header\n0B\t"+agentkit.FeaturesPath+"\n0B\t"+agentkit.ProgressPath+"\n")
		learn(1, view(agentkit.FeaturesPath), prefix+strings.ReplaceAll(features, "\n", "\n     1\t"))
		learn(2, view(agentkit.ProgressPath), prefix+progress)
		for _, it := range checklist(features) {
			learn(3, view(notesPath(it.text)), prefix+notes)
			learn(4, call(toolSearch, searchInput{Query: strings.Join(keywords(it.text), " ")}), search)
		}
		learn(5, call(toolRead, readInput{Name: "x.md"}), read)
		for range 3 {
			turn := c.next()
			if len(turn.Content) == 0 {
				t.Fatal("got an empty turn")
			}
			for _, b := range turn.Content {
				var in memoryInput
				switch {
				case b.Type == blockText && b.Text == "":
					t.Error("got an empty text")
				case b.Type == blockText:
				case b.Name != toolMemory && b.Name != toolList && b.Name != toolSearch && b.Name != toolRead:
					t.Errorf("got a call of %s", b.Name)
				case json.Unmarshal(b.Input, &in) != nil:
					t.Errorf("got input %s", b.Input)
				case in.Command == "str_replace":
					text := c.files[in.Path].text
					at := strings.Index(text, in.OldStr)
					if at < 0 || strings.Contains(text[at+1:], in.OldStr) {
						t.Errorf("got old_str %q, want what is once in %q", in.OldStr, text)
					}
				}
				if b.Type != blockText {
					c.learn(answered(b, "done", false))
				}
			}
		}
	})
}
