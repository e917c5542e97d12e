package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// The files of the memory that the offline model keeps besides those of agentkit.
const (
	notesDir   = "/memories/notes/"
	reportPath = "/memories/report.md"
)

const (
	// maxNoted is how many documents, and maxQuotes how many lines of each, the offline model notes for an item.
	maxNoted  = 5
	maxQuotes = 3
	// maxErrors is after how many calls in a row that failed the offline model gives up.
	maxErrors = 4
	// maxSlugBytes is the longest name of a file with notes, without its ending.
	maxSlugBytes = 60
)

// offlineModel answers in the place of Claude where there is no key. It is no language model but a few rules, which do
// what the session pattern asks of a model: look at the memory first, work on one open item of the checklist at a time,
// note what was found as soon as it was found, check the notes before the item is ticked, and keep the progress log. It
// knows only what the request shows, like Claude: the memory and the documents as its tool calls have answered. So it
// carries on from whatever an earlier session left, wherever that was cut off. It quotes and concludes nothing.
type offlineModel struct{}

// Respond implements claudetest.Model.
func (offlineModel) Respond(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
	if req.Compacting {
		return claudetest.Turn{}, nil // claudetest's own summary
	}
	return readConversation(req).next(), nil
}

// item is a line of the checklist.
type item struct {
	line   int // from 0
	text   string
	ticked bool
}

var checkbox = regexp.MustCompile(`^\s*[-*] \[([ xX])\] (.*\S)\s*$`)

// checklist returns the items of a text.
func checklist(text string) []item {
	var items []item
	for i, s := range strings.Split(text, "\n") {
		if match := checkbox.FindStringSubmatch(s); match != nil {
			items = append(items, item{line: i, text: match[2], ticked: match[1] != " "})
		}
	}
	return items
}

// fillers are words that questions are made of, and not answers.
var fillers = wordsOf(`a an and are at be by can did do does each for from had has have how in is it its long many much
	no not of on or our out still that the their them there they this to was were what when where which who why will with`)

// keywords returns the words of a question that a document with the answer may have.
func keywords(question string) []string {
	return slices.DeleteFunc(wordsOf(question), func(w string) bool { return slices.Contains(fillers, w) })
}

// notesPath returns the path of the notes about an item, the same in every session.
func notesPath(item string) string {
	slug := strings.Join(keywords(item), "-")
	if slug == "" || len(slug) > maxSlugBytes {
		h := fnv.New32a()
		_, _ = h.Write([]byte(item)) // never fails
		slug = strings.ToValidUTF8(slug[:min(len(slug), maxSlugBytes)], "")
		slug = fmt.Sprintf("%s-%08x", cmp.Or(slug, "item"), h.Sum32())
	}
	return notesDir + slug + ".md"
}

// next decides what to do.
func (c *conversation) next() claudetest.Turn {
	switch {
	case c.errors >= maxErrors:
		return claudetest.Say("My tools keep failing, so I stop here. Last I was told: " + c.lastError)
	case c.listed == nil:
		return claudetest.Say("I look at my memory first.").With(view("/memories"))
	}
	if calls := c.unseen(agentkit.ProgressPath, agentkit.FeaturesPath, agentkit.StartupPath); len(calls) > 0 {
		return claudetest.Use(calls...)
	}
	if strings.Contains(c.files[agentkit.StartupPath].text, toolList) && !c.listedAll {
		turn := claudetest.Use(call(toolList, struct{}{}))
		if match := cutOff.FindStringSubmatch(c.files[agentkit.ProgressPath].text); match != nil {
			turn = claudetest.Say(match[1] + " was cut off. I carry on from what it left.").With(turn.Content...)
		}
		return turn
	}
	items := checklist(c.files[agentkit.FeaturesPath].text)
	if len(items) == 0 {
		return c.makeChecklist()
	}
	for _, it := range items {
		if it.ticked && !c.logged(it.text) {
			return claudetest.Say("An item is ticked and not in the progress log; I put that right.").
				With(c.log(it.text))
		}
	}
	open := slices.DeleteFunc(slices.Clone(items), func(it item) bool { return it.ticked })
	left := slices.DeleteFunc(slices.Clone(open), c.inVain)
	switch {
	case len(open) == 0:
		return c.report(items)
	case c.limit > 0 && c.ticked+len(open)-len(left) >= c.limit:
		return claudetest.Say("That is all for this session. Next: " + append(left, open...)[0].text)
	case len(left) == 0:
		return c.giveUp(items)
	}
	return c.work(left[0])
}

// nothingFound stands in the notes about an item for what no document says.
const nothingFound = "No document has anything about it."

// inVain tells whether an item was looked for in this session, and nothing was found. It stays open: the next session
// looks again, as there may be other documents then.
func (c *conversation) inVain(it item) bool {
	notes, ok := c.files[notesPath(it.text)]
	if !ok || !notes.has(nothingFound) || sayAnything(notes.text) {
		return false
	}
	isNew := func(h hit) bool { return !notes.has(sourceLine(h.document)) }
	return query(it) == "" || c.searched[query(it)] && !slices.ContainsFunc(relevant(c.searches[query(it)]), isNew)
}

// query is what is searched for an item.
func query(it item) string { return strings.Join(keywords(it.text), " ") }

// cutOff is how a progress log begins after a session that was not closed.
var cutOff = regexp.MustCompile(`^## (Session .+): not closed\n`)

// makeChecklist is for a memory whose checklist is missing or empty: the question itself becomes its only item.
func (c *conversation) makeChecklist() claudetest.Turn {
	switch {
	case c.files[agentkit.FeaturesPath].isDir:
		return claudetest.Say(agentkit.FeaturesPath + " is a directory, so I cannot keep a checklist. Move it away.")
	case c.goal() == "":
		return claudetest.Say("I have no question: it is not in my memory. Give it with --question.")
	}
	text := "- [ ] " + c.goal() + "\n"
	say := claudetest.Say("There is no checklist, so I make one of the question.")
	if f := c.files[agentkit.FeaturesPath]; !f.missing {
		return say.With(insert(agentkit.FeaturesPath, f.end(), text))
	}
	return say.With(create(agentkit.FeaturesPath, text))
}

// logTitle heads the entry of the progress log about an item.
func logTitle(item string) string { return "## " + item }

func (c *conversation) logged(item string) bool {
	return c.files[agentkit.ProgressPath].has(logTitle(item))
}

// log puts an entry about an item at the top of the progress log.
func (c *conversation) log(item string) claudetest.Block {
	entry := logTitle(item) + "\n\nDone: noted in " + notesPath(item) + ", checked, and marked complete.\n"
	if c.files[agentkit.ProgressPath].missing {
		return create(agentkit.ProgressPath, entry)
	}
	return insert(agentkit.ProgressPath, 0, entry+"\n")
}

// work goes one step further with an item.
func (c *conversation) work(it item) claudetest.Turn {
	path := notesPath(it.text)
	if calls := c.unseen(path); len(calls) > 0 {
		return claudetest.Say("I have notes about the next item already: " + it.text).With(calls...)
	}
	notes := c.files[path]
	if c.lastRead != "" && !notes.has(sourceLine(c.lastRead)) {
		return claudetest.Use(c.note(it, c.lastRead)) // at once, before it can be cleared
	}
	hits, known := c.searches[query(it)]
	if !known && query(it) != "" {
		return claudetest.Say("Next: " + it.text).With(call(toolSearch, searchInput{Query: query(it)}))
	}
	for _, h := range relevant(hits) {
		if notes.has(sourceLine(h.document)) {
			continue
		}
		if old := "\n" + nothingFound + "\n"; once(notes.text, old) { // by an earlier session
			return claudetest.Use(replace(path, old, ""))
		}
		if _, ok := c.documents[h.document]; !ok {
			return claudetest.Use(call(toolRead, readInput{Name: h.document, FirstLine: h.best[0].number}))
		}
		return claudetest.Use(c.note(it, h.document))
	}
	if !sayAnything(notes.text) {
		return claudetest.Say("I find nothing about it.").With(c.add(it, nothingFound+"\n"))
	}
	return c.finish(it, path)
}

// sayAnything tells whether notes have more than titles, and documents without a finding.
func sayAnything(notes string) bool {
	for s := range strings.Lines(notes) {
		s = strings.TrimSpace(s)
		switch {
		case s == "", s == nothingFound, s == onlyTitle, strings.HasPrefix(s, "#"), strings.HasPrefix(s, notRead):
		default:
			return true
		}
	}
	return false
}

// note puts what a document says about an item into the notes.
func (c *conversation) note(it item, document string) claudetest.Block {
	return c.add(it, findings(document, keywords(it.text), c.documents[document]))
}

// add adds a text to the notes about an item.
func (c *conversation) add(it item, text string) claudetest.Block {
	path := notesPath(it.text)
	if notes := c.files[path]; !notes.missing {
		return insert(path, notes.end(), "\n"+text)
	}
	return create(path, "# "+it.text+"\n\n"+text)
}

// relevant returns the hits that are worth reading: those with at least four fifths of the words that the best has.
func relevant(hits []hit) []hit {
	if len(hits) == 0 {
		return nil
	}
	best := hits[0].words
	hits = slices.DeleteFunc(slices.Clone(hits), func(h hit) bool { return 5*h.words < 4*best })
	return hits[:min(maxNoted, len(hits))]
}

// sourceLine heads what notes say about a document.
func sourceLine(document string) string { return "## " + document }

// What is noted of a document that has no lines to quote.
const (
	onlyTitle = "- nothing beyond its title"
	notRead   = "- not read: "
)

// findings returns the lines of a document that say most about some words.
func findings(document string, words []string, read reading) string {
	var b strings.Builder
	fmt.Fprintln(&b, sourceLine(document))
	if read.err != "" {
		fmt.Fprintf(&b, "%s%s\n", notRead, read.err)
		return b.String()
	}
	var texts []string
	for _, l := range read.lines {
		if strings.HasPrefix(l.text, "#") {
			l.text = "" // a title says nothing
		}
		texts = append(texts, strings.TrimLeft(l.text, "-* "))
	}
	quotes := bestLines(find(words, texts).best, maxQuotes)
	for _, q := range quotes {
		fmt.Fprintf(&b, "- %s (line %d)\n", q.text, read.lines[q.number-1].number)
	}
	if len(quotes) == 0 {
		fmt.Fprintln(&b, onlyTitle)
	}
	return b.String()
}

// finish ticks an item once its notes, as they are in the memory, were seen to be complete.
func (c *conversation) finish(it item, path string) claudetest.Turn {
	if !c.files[path].viewed {
		return claudetest.Say("All is noted. I check the notes before I tick the item.").With(view(path))
	}
	old, ticked := tick(c.files[agentkit.FeaturesPath].text, it.line)
	turn := claudetest.Use(replace(agentkit.FeaturesPath, old, ticked))
	if !c.logged(it.text) {
		turn = turn.With(c.log(it.text))
	}
	return turn
}

// tick returns the text to replace so that the item in a line is ticked, and by what: the line, with as many of its
// neighbours as it takes to be unique.
func tick(text string, line int) (old, ticked string) {
	lines := strings.Split(text, "\n")
	done := slices.Clone(lines)
	done[line] = strings.Replace(lines[line], "[ ]", "[x]", 1)
	for more := 0; ; more++ {
		from, to := max(line-more, 0), min(line+more+1, len(lines))
		old, ticked = strings.Join(lines[from:to], "\n"), strings.Join(done[from:to], "\n")
		if once(text, old) {
			return old, ticked
		}
	}
}

// once tells whether a text has another in one place only, as str_replace wants it.
func once(text, part string) bool {
	at := strings.Index(text, part)
	return at >= 0 && !strings.Contains(text[at+1:], part)
}

// report writes the report, looks at it once more and answers.
func (c *conversation) report(items []item) claudetest.Turn {
	paths := []string{reportPath}
	for _, it := range items {
		paths = append(paths, notesPath(it.text))
	}
	if calls := c.unseen(paths...); len(calls) > 0 {
		return claudetest.Say("Every item is done. I read what I need for the report.").With(calls...)
	}
	report := c.files[reportPath]
	text, missing := "# Report\n\n"+c.goal()+"\n", ""
	for _, it := range items {
		_, notes, _ := strings.Cut(c.files[notesPath(it.text)].text, "\n")
		section := "\n" + reportTitle(it.text) + "\n" + strings.ReplaceAll(notes, "\n## ", "\n### ")
		text += section
		if !report.has(reportTitle(it.text)) {
			missing += section
		}
	}
	switch {
	case report.missing:
		return claudetest.Say("I write the report.").With(create(reportPath, text))
	case missing != "":
		return claudetest.Say("The report lacks a part.").With(insert(reportPath, report.end(), missing))
	case !report.viewed:
		return claudetest.Use(view(reportPath))
	}
	return claudetest.Say("Every item of the checklist is done. The report with all sources is in " + reportPath + ".\n" +
		c.answers(items))
}

// reportTitle heads what the report says about an item.
func reportTitle(item string) string { return "## " + item }

// giveUp ends a session in which nothing was found about the items that are open.
func (c *conversation) giveUp(items []item) claudetest.Turn {
	paths, open := []string{}, ""
	for _, it := range items {
		paths = append(paths, notesPath(it.text))
		if !it.ticked {
			open += " " + it.text
		}
	}
	if calls := c.unseen(paths...); len(calls) > 0 {
		return claudetest.Say("I read what I have found.").With(calls...)
	}
	return claudetest.Say("No document has anything about this, so I leave it open:" + open + "\n" + c.answers(items))
}

// answers says of each item what the notes have that comes nearest to an answer: the best line of every document in
// which that has nearly as many of the words as in any other.
func (c *conversation) answers(items []item) string {
	text := ""
	for _, it := range items {
		text += "\n" + it.text + "\n"
		var quotes []hit
		for s := range strings.Lines(c.files[notesPath(it.text)].text) {
			if name, ok := strings.CutPrefix(s, sourceLine("")); ok {
				quotes = append(quotes, hit{document: strings.TrimSpace(name)})
				continue
			}
			found := find(keywords(it.text), []string{s})
			if n := len(quotes) - 1; n >= 0 && found.words > quotes[n].words {
				quotes[n].words, quotes[n].best = found.words, found.best
			}
		}
		slices.SortStableFunc(quotes, func(a, b hit) int { return b.words - a.words })
		if len(quotes) == 0 || quotes[0].words == 0 {
			text += "- Nothing was found.\n"
			continue
		}
		for _, q := range relevant(quotes) {
			text += strings.TrimSpace(q.best[0].text) + " in " + q.document + "\n"
		}
	}
	return text
}

// unseen returns the calls that show files, or the rests of them, whose texts are not known.
func (c *conversation) unseen(paths ...string) []claudetest.Block {
	var calls []claudetest.Block
	for _, path := range paths {
		switch f, ok := c.files[path]; {
		case ok && f.more > 0:
			calls = append(calls, viewFrom(path, f.more))
		case ok:
		case c.listed[path]:
			calls = append(calls, view(path))
		default:
			c.files[path] = &file{missing: true}
		}
	}
	return calls
}

// The calls of the memory tool.

func view(path string) claudetest.Block {
	return call(toolMemory, map[string]any{"command": "view", "path": path})
}

func viewFrom(path string, first int) claudetest.Block {
	return call(toolMemory, map[string]any{"command": "view", "path": path, "view_range": []int{first, -1}})
}

func create(path, text string) claudetest.Block {
	return call(toolMemory, map[string]any{"command": "create", "path": path, "file_text": text})
}

func insert(path string, line int, text string) claudetest.Block {
	return call(toolMemory, map[string]any{"command": "insert", "path": path, "insert_line": line, "insert_text": text})
}

func replace(path, old, text string) claudetest.Block {
	return call(toolMemory, map[string]any{"command": "str_replace", "path": path, "old_str": old, "new_str": text})
}

func call(tool string, input any) claudetest.Block { return claudetest.Call(tool, input) }
