package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// conversation is what the offline model has been shown, and not yet cleared.
type conversation struct {
	question string // of the task; see goal
	limit    int    // how many items to work on; 0 is all

	listed    map[string]bool    // the files of the memory; nil before they were listed
	files     map[string]*file   // those whose texts are known, by path
	searched  map[string]bool    // by query, also those whose results were cleared
	searches  map[string][]hit   // by query
	documents map[string]reading // by name

	lastRead  string // the document that the latest call has read, if it was such a call
	ticked    int    // items ticked in this session
	errors    int    // how many of the latest calls failed, one after the other
	lastError string // of them
	listedAll bool   // list_documents was called
}

// file is what is known about a file of the memory.
type file struct {
	missing bool
	isDir   bool
	text    string
	viewed  bool // it was shown since it was changed
	more    int  // the first line that is not shown yet; 0 where all of it is
}

// has tells whether the file has a line.
func (f *file) has(line string) bool { return strings.Contains("\n"+f.text+"\n", "\n"+line+"\n") }

// end returns the insert_line that puts lines at the end of the text.
func (f *file) end() int {
	n := strings.Count(f.text, "\n")
	if f.text != "" && !strings.HasSuffix(f.text, "\n") {
		n++
	}
	return n
}

// reading is what read_document has answered.
type reading struct {
	lines []line
	err   string
}

// readConversation reads a request as Claude would: the task, and what tool calls have answered. What was cleared is
// not known any more.
func readConversation(req *claudetest.Request) *conversation {
	c := &conversation{
		files: map[string]*file{}, searched: map[string]bool{}, searches: map[string][]hit{},
		documents: map[string]reading{},
	}
	for _, b := range req.Messages[0].Content {
		c.readTask(b.Text)
	}
	for _, call := range req.Calls() {
		switch {
		case !call.Answered:
		case call.Result.Cleared:
			c.lastRead = ""
			c.learnSearch(call)
			c.listedAll = c.listedAll || call.Name == toolList // once is enough
		default:
			c.learn(call)
		}
	}
	return c
}

var (
	taskQuestion = regexp.MustCompile(`(?m)^Question: (.+)$`)
	taskLimit    = regexp.MustCompile(`at most (\d+) open feature`)
)

func (c *conversation) readTask(text string) {
	if match := taskQuestion.FindStringSubmatch(text); match != nil {
		c.question = match[1]
	}
	if match := taskLimit.FindStringSubmatch(text); match != nil {
		c.limit, _ = strconv.Atoi(match[1])
	}
}

var goalLine = regexp.MustCompile(`(?m)^Goal:[ \t]+(\S.*)$`)

// goal is the question as the memory has it, or that of the task.
func (c *conversation) goal() string {
	if match := goalLine.FindStringSubmatch(c.files[agentkit.FeaturesPath].text); match != nil {
		return match[1]
	}
	return c.question
}

// learn takes in the result of a tool call.
func (c *conversation) learn(call claudetest.ToolCall) {
	result, isError := call.Result.Text, call.Result.IsError
	c.lastRead = ""
	if isError {
		c.errors++
		c.lastError = result
	} else {
		c.errors = 0
	}
	switch call.Name {
	case toolMemory:
		var in memoryInput
		if json.Unmarshal(call.Input, &in) == nil {
			c.learnMemory(in, result, isError)
		}
	case toolList:
		c.listedAll = true
	case toolSearch:
		c.learnSearch(call)
	case toolRead:
		var in readInput
		if json.Unmarshal(call.Input, &in) != nil {
			return
		}
		c.lastRead = in.Name
		c.documents[in.Name] = reading{lines: parseLines(result)}
		if isError {
			c.documents[in.Name] = reading{err: strings.TrimPrefix(result, "Error: ")}
			c.errors = 0 // of no use to try again, and a document less is no reason to give up
		}
	}
}

// learnSearch takes in a search, or no more than that it was made.
func (c *conversation) learnSearch(call claudetest.ToolCall) {
	var in searchInput
	if call.Name != toolSearch || json.Unmarshal(call.Input, &in) != nil || call.Result.IsError {
		return
	}
	c.searched[in.Query] = true
	if !call.Result.Cleared {
		c.searches[in.Query] = parseHits(call.Result.Text)
	}
}

// memoryInput is the input of the memory tool in the calls of the offline model.
type memoryInput struct {
	Command    string `json:"command"`
	Path       string `json:"path"`
	FileText   string `json:"file_text"`
	InsertLine int    `json:"insert_line"`
	InsertText string `json:"insert_text"`
	OldStr     string `json:"old_str"`
	NewStr     string `json:"new_str"`
	ViewRange  []int  `json:"view_range"`
}

func (c *conversation) learnMemory(in memoryInput, result string, isError bool) {
	f := c.files[in.Path]
	switch {
	case in.Command == "view" && isError:
		if strings.Contains(result, "does not exist") {
			c.files[in.Path] = &file{missing: true}
		}
	case isError:
		// What the file is like is not sure: look again, whether it is listed or not.
		delete(c.files, in.Path)
		c.list(in.Path)
	case in.Command == "view" && in.Path == "/memories":
		c.listed = map[string]bool{}
		for s := range strings.Lines(result) {
			if _, path, ok := strings.Cut(strings.TrimSuffix(s, "\n"), "\t"); ok {
				c.list(path)
			}
		}
	case in.Command == "view":
		shown := &file{text: unnumber(result), viewed: true, isDir: strings.HasPrefix(result, "Here're the files")}
		if match := clipped.FindStringSubmatch(result); match != nil {
			shown.more, _ = strconv.Atoi(match[1])
		}
		if len(in.ViewRange) > 0 && f != nil {
			shown.text = f.text + "\n" + shown.text
		}
		c.files[in.Path] = shown
	case in.Command == "create":
		c.files[in.Path] = &file{text: in.FileText}
		c.list(in.Path)
	case f == nil:
		// It changed something that is not shown any more.
	case in.Command == "insert":
		lines := strings.Split(f.text, "\n")
		inserted := strings.Split(strings.TrimSuffix(in.InsertText, "\n"), "\n")
		at := max(0, min(in.InsertLine, len(lines)))
		lines = append(lines[:at:at], append(inserted, lines[at:]...)...)
		c.files[in.Path] = &file{text: strings.Join(lines, "\n")}
	case in.Command == "str_replace":
		c.files[in.Path] = &file{text: strings.Replace(f.text, in.OldStr, in.NewStr, 1)}
	}
	if in.Command == "str_replace" && in.Path == agentkit.FeaturesPath && !isError {
		c.ticked++
	}
}

func (c *conversation) list(path string) {
	if c.listed == nil {
		c.listed = map[string]bool{}
	}
	c.listed[path] = true
}

// clipped is in what view shows of a file that is too long to be shown at once.
var clipped = regexp.MustCompile(`use view_range \[(\d+), -?\d+\] to see`)

// unnumber returns the text of a file that view has shown.
func unnumber(view string) string {
	var lines []string
	for i, s := range strings.Split(view, "\n") {
		if _, text, ok := strings.Cut(s, "\t"); ok && i > 0 {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "\n")
}

var (
	hitHead = regexp.MustCompile(`^(\S.*) \((\d+) of \d+ words?\)$`)
	hitLine = regexp.MustCompile(`^\s*(\d+): ?(.*)$`)
)

// parseHits reads what search_documents answers.
func parseHits(result string) []hit {
	var hits []hit
	for s := range strings.Lines(result) {
		s = strings.TrimSuffix(s, "\n")
		if match := hitHead.FindStringSubmatch(s); match != nil {
			words, _ := strconv.Atoi(match[2])
			hits = append(hits, hit{document: match[1], words: words})
		} else if l, ok := parseLine(s); ok && len(hits) > 0 {
			last := &hits[len(hits)-1]
			last.best = append(last.best, l)
		}
	}
	return slices.DeleteFunc(hits, func(h hit) bool { return len(h.best) == 0 }) // not ours
}

// parseLines reads what read_document answers.
func parseLines(result string) []line {
	var lines []line
	_, result, _ = strings.Cut(result, "\n")
	for s := range strings.Lines(result) {
		if l, ok := parseLine(strings.TrimSuffix(s, "\n")); ok {
			lines = append(lines, l)
		}
	}
	return lines
}

func parseLine(s string) (line, bool) {
	match := hitLine.FindStringSubmatch(s)
	if match == nil {
		return line{}, false
	}
	number, _ := strconv.Atoi(match[1])
	return line{number: number, text: match[2]}, true
}
