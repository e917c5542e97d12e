package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// model answers in the place of Claude, by these rules:
//
//   - It works through the plan of the brief, one call a turn, and gives a reason of about 50 tokens with each.
//   - Something that a step needs from an earlier result counts as known if it stands in the prompt: in a result, or in
//     a note. A note is text of the model's own, in the input of a call of the memory tool, and inputs are not cleared.
//   - What is not known it looks up again, with the call that gave it the first time, and then goes on.
//   - With a memory, it looks into that first. When it is warned that results are going to be cleared, it notes what
//     the results tell that came since its last note, in the same turn as its next call.
//
// All that it decides with is the request it is shown.
type model struct {
	// reasons is how often the reason is given in a turn, where a model may say more.
	reasons int
	// notedPercent is how many facts out of a hundred it finds worth a note.
	notedPercent int
	// rereads makes it look into its notes when it needs one, instead of relying on its earlier calls.
	rereads bool
	// found is told how the model came by what a step needs. It takes no part in what the model does.
	found func(source)
}

// defaultNotedPercent is how many facts out of a hundred the model notes. There is no published figure; a note-taker
// who does not know yet what will be needed misses some.
const defaultNotedPercent = 80

// source is where the model has from what a step needs.
type source int

const (
	inResult source = iota // it still stands in a result
	inMemory               // it was cleared, but noted
	inAgain                // it was cleared, and looked up again
)

// A turn of the model begins with what it is about, so that it can tell from the conversation how far it is. All of
// them are followed by the number of a step.
const (
	doing     = "Step "           // the call of the step
	again     = "Again for step " // the call of an earlier step
	rereading = "Notes for step " // a look into the notes
)

// Respond plays a turn.
func (m model) Respond(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
	at := lastTurn(req)
	if at.kind == "" && req.HasTool(toolMemory) {
		return m.use(doing, 0, view("/memories")), nil
	}
	step := at.step
	if at.kind == doing || at.kind == "" {
		step++
	}
	brief := req.Messages[0].Content[0].Text
	todo, ok := findStep(brief, step)
	if !ok {
		return claudetest.Say("The plan is done. This is the report."), nil
	}
	if todo.need != nil {
		from, known := m.know(req, todo.need)
		switch {
		case !known && m.rereads && at.kind == doing && hasNotes(req):
			return m.use(rereading, step, view(notesPath)), nil
		case !known && at.kind == again:
			return claudetest.Turn{}, fmt.Errorf("step %d needs what was just looked up, but it is not shown", step)
		case !known:
			earlier, ok := findStep(brief, todo.need.Step)
			if !ok {
				return claudetest.Turn{}, fmt.Errorf("step %d needs something from step %d, which is not planned",
					step, todo.need.Step)
			}
			return m.use(again, step, m.withNote(req, earlier.call())...), nil
		case at.kind == again:
			from = inAgain
		}
		m.found(from)
	}
	return m.use(doing, step, m.withNote(req, todo.call())...), nil
}

// use is a turn with calls.
func (m model) use(kind string, step int, calls ...claudetest.Block) claudetest.Turn {
	const reason = " The plan asks for this next, and what I have seen so far is enough to go on with it. I take down " +
		"what the result tells about dates, sizes and people, and compare it with the results before."
	return claudetest.Say(fmt.Sprintf("%s%d.", kind, step) + strings.Repeat(reason, m.reasons)).With(calls...)
}

// turnAt is what a turn of the model was about.
type turnAt struct {
	kind string // doing, again or rereading; empty before the first turn
	step int
}

// lastTurn returns what the last turn of the model was about.
func lastTurn(req *claudetest.Request) turnAt {
	for i := len(req.Messages) - 1; i > 0; i-- {
		if req.Messages[i].Role != "assistant" {
			continue
		}
		text := req.Messages[i].Content[0].Text
		for _, kind := range []string{doing, again, rereading} {
			if rest, ok := strings.CutPrefix(text, kind); ok {
				number, _, _ := strings.Cut(rest, ".")
				step, _ := strconv.Atoi(number) // as use wrote it
				return turnAt{kind, step}
			}
		}
	}
	return turnAt{}
}

// plannedStep is a step as the brief has it.
type plannedStep struct {
	tool, argument string
	need           *Fact // without its value
}

func (s plannedStep) call() claudetest.Block {
	return claudetest.Call(s.tool, map[string]string{argumentName: s.argument})
}

// findStep finds a step in the brief, from 1.
func findStep(brief string, step int) (plannedStep, bool) {
	_, rest, ok := strings.Cut(brief, fmt.Sprintf("\n%d. ", step))
	if !ok {
		return plannedStep{}, false
	}
	line, _, _ := strings.Cut(rest, "\n")
	call, need, needs := strings.Cut(line, needMark)
	var s plannedStep
	s.tool, s.argument, _ = strings.Cut(call, " ")
	if needs {
		what, from, _ := strings.Cut(need, fromMark)
		s.need = &Fact{}
		s.need.Attribute, s.need.Subject, _ = strings.Cut(what, " of the ")
		s.need.Step, _ = strconv.Atoi(from) // 0 is no step, and is found to be none
	}
	return s, true
}

// know tells where a fact stands in what the model is shown.
func (m model) know(req *claudetest.Request, f *Fact) (from source, known bool) {
	lead := f.lead()
	for _, call := range req.Calls() {
		shown := strings.Contains(call.Result.Text, lead)
		switch {
		case shown && call.Name != toolMemory:
			return inResult, true
		case shown, call.Name == toolMemory && !m.rereads && strings.Contains(string(call.Input), lead):
			known = true
		}
	}
	return inMemory, known
}

// withNote puts a note before a call if the model is warned and there is something to note.
func (m model) withNote(req *claudetest.Request, call claudetest.Block) []claudetest.Block {
	if req.Warning == "" {
		return []claudetest.Block{call}
	}
	note := m.newNote(req)
	if note == "" {
		return []claudetest.Block{call}
	}
	if hasNotes(req) {
		return []claudetest.Block{insert(note), call}
	}
	return []claudetest.Block{create(note), call}
}

// newNote collects what is worth a note in the results since the last one. What was cleared is gone.
func (m model) newNote(req *claudetest.Request) string {
	var note string
	for _, call := range slices.Backward(req.Calls()) {
		if writesNote(call) {
			break
		}
		if call.Name != toolMemory {
			note = m.worthNoting(call.Result.Text) + note
		}
	}
	return note
}

// worthNoting returns the facts of a result that are worth a note, a line for each.
func (m model) worthNoting(result string) string {
	var b strings.Builder
	for rest := result; ; {
		i := strings.Index(rest, factMark)
		if i < 0 {
			return b.String()
		}
		fact, after, _ := strings.Cut(rest[i:], "\n")
		h := fnv.New32a()
		_, _ = h.Write([]byte(fact)) // never fails
		if int(h.Sum32()%100) < m.notedPercent {
			b.WriteString(fact + "\n")
		}
		rest = after
	}
}

// hasNotes tells whether the model has made a note.
func hasNotes(req *claudetest.Request) bool { return slices.ContainsFunc(req.Calls(), writesNote) }

func writesNote(call claudetest.ToolCall) bool {
	var in memoryCall
	return call.Name == toolMemory && json.Unmarshal(call.Input, &in) == nil && in.Command != commandView
}

func view(path string) claudetest.Block {
	return claudetest.Call(toolMemory, memoryCall{Command: commandView, Path: path})
}

// create makes the file of notes.
func create(note string) claudetest.Block {
	return claudetest.Call(toolMemory, memoryCall{Command: commandCreate, Path: notesPath, FileText: note})
}

// insert adds a note at the top of the file of notes.
func insert(note string) claudetest.Block {
	top := 0
	return claudetest.Call(toolMemory, memoryCall{
		Command: commandInsert, Path: notesPath, InsertLine: &top, InsertText: note,
	})
}
