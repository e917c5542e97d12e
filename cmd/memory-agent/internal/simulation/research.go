package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The numbers of the generator. They were chosen before the first run and not changed for its result.
const (
	// maxTurns is the most steps that a run may have: there are more invented things than that.
	maxTurns = 1000

	// A search returns ten hits with their snippets. There is no published figure for the size of that; 1,000 to 3,000
	// tokens, all sizes alike, is what ten snippets of one to three paragraphs have.
	minSearchTokens, maxSearchTokens = 1000, 3000

	// After the search for a thing come one page or two, with the same chance: so 40 % of the calls are searches.
	maxPages = 2

	// neededPercent is in how many steps out of a hundred something from an earlier result is needed. There is no
	// published figure; one step in three makes a research whose parts depend on each other.
	neededPercent = 33
)

// pageTokens are the quantiles of the size of a page, in tokens: every twentieth, from the smallest to the largest.
// They are those of a log-normal distribution, which is how sizes of web documents are usually modelled (Barford and
// Crovella, "Generating Representative Web Workloads for Network and Server Performance Evaluation", 1998), with a
// median of 4,000 tokens and a sigma of 0.7, cut at 800 and 25,000 tokens. So nine pages out of ten have 1,265 to
// 12,650 tokens. The documentation of the web fetch tool gives 2,500 tokens for an average page and 25,000 for a large
// one (https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool); pages that answer a question are
// taken to be longer than average. It is a table since floating point does not come out the same on every platform.
var pageTokens = [...]int{
	800, 1265, 1631, 1936, 2219, 2495, 2771, 3054, 3350, 3663, 4000,
	4368, 4776, 5238, 5774, 6414, 7210, 8263, 9810, 12650, 25000,
}

// Research is a generated run of web research: the task, and what the web answers.
type Research struct {
	// Brief is the task, as the user gives it: the plan.
	Brief string
	// Steps are the calls that the plan has, in their order.
	Steps []Step
}

// Step is one call of a tool.
type Step struct {
	// Tool is toolSearch or toolFetch.
	Tool string
	// Argument is the query or the URL. No two steps of a tool have the same.
	Argument string
	// Tokens is the size of the result.
	Tokens int
	// Facts are what can be learned from the result.
	Facts []Fact
	// Need is a fact of an earlier result that the step cannot be done without; nil in most steps.
	Need *Fact
}

// Fact is something that a result tells about a thing.
type Fact struct {
	Attribute, Subject, Value string
	Step                      int // whose result has it, from 1
}

// String is the fact as it stands in a result and in a note.
func (f Fact) String() string { return f.lead() + f.Value }

// factMark begins the line of a fact.
const factMark = "Known: "

// lead is the line of a fact before its value.
func (f Fact) lead() string { return factMark + "the " + f.Attribute + " of the " + f.Subject + " is " }

// Tokens is the size of all results together.
func (r *Research) Tokens() int {
	n := 0
	for _, s := range r.Steps {
		n += s.Tokens
	}
	return n
}

// Generator makes a Research.
type Generator struct {
	Seed  uint64
	Turns int // of the run, 1 to maxTurns; as many steps
	// PagePercent is the size of pages in percent of what pageTokens has.
	PagePercent int
	// FarBack makes all earlier results as likely to be needed again, instead of late ones more than early ones.
	FarBack bool
}

// Generate makes the run. The same Generator makes the same, on every platform.
func (g Generator) Generate() *Research {
	random := rand.New(rand.NewPCG(g.Seed, 0)) //nolint:gosec // it has to come out the same every time
	things := random.Perm(len(firstNames) * len(secondNames))
	r := &Research{}
	for len(r.Steps) < g.Turns {
		subject := firstNames[things[0]/len(secondNames)] + " " + secondNames[things[0]%len(secondNames)]
		things = things[1:]
		pages := 1 + random.IntN(maxPages)
		for page := range 1 + pages {
			if len(r.Steps) < g.Turns {
				r.Steps = append(r.Steps, g.step(random, r.Steps, subject, page))
			}
		}
	}
	r.Brief = brief(r.Steps)
	return r
}

// attributes are what there is to know about a thing, by the call that tells it: the search, the first page, the
// second.
var attributes = [1 + maxPages][]string{
	{"founding year", "nearest town"},
	{"length", "first owner", "building cost"},
	{"yearly tonnage", "number of keepers", "last repair"},
}

// step makes the step that follows the steps before: the search for a subject, which is page 0, or a page about it.
func (g Generator) step(random *rand.Rand, before []Step, subject string, page int) Step {
	s := Step{Tool: toolSearch, Argument: subject}
	if page == 0 {
		s.Tokens = minSearchTokens + random.IntN(maxSearchTokens-minSearchTokens+1)
	} else {
		slug := strings.ReplaceAll(strings.ToLower(subject), " ", "-")
		s.Tool, s.Argument = toolFetch, fmt.Sprintf("https://archive.example/%s/%d", slug, page)
		i := random.IntN(len(pageTokens) - 1)
		s.Tokens = (pageTokens[i] + random.IntN(pageTokens[i+1]-pageTokens[i])) * g.PagePercent / 100
	}
	for _, attribute := range attributes[page] {
		value := fmt.Sprintf("%d %s", 100+random.IntN(9900), units[random.IntN(len(units))])
		s.Facts = append(s.Facts, Fact{attribute, subject, value, len(before) + 1})
	}
	if len(before) > 0 && random.IntN(100) < neededPercent {
		facts := before[len(before)-g.back(random, len(before))].Facts
		s.Need = &facts[random.IntN(len(facts))]
	}
	return s
}

// back draws how far back the result is that is needed again, from 1, the one just before, to most. The chance of each
// is in proportion to 1/distance, as it mostly is for things that are used again (Zipf's law). Of a hundred results,
// so, half of the needs go to the last seven, and one in ten to the first forty. There is no published figure for
// agents.
func (g Generator) back(random *rand.Rand, most int) int {
	const one = 1_000_000
	weight := func(distance int) int {
		if g.FarBack {
			return one
		}
		return one / distance
	}
	all := 0
	for d := 1; d <= most; d++ {
		all += weight(d)
	}
	drawn := random.IntN(all)
	d := 1
	for drawn >= weight(d) {
		drawn -= weight(d)
		d++
	}
	return d
}

// needMark and fromMark are how a step in the brief says what it needs and where that was found.
const (
	needMark = " | compare with the "
	fromMark = ", from step "
)

// brief writes the task.
func brief(steps []Step) string {
	var b strings.Builder
	b.WriteString("Write a report on the harbours, bridges and lights of the coast. Work through this plan in its " +
		"order, one call for each step, and compare where it says so. Report at the end.\n\n")
	for i, s := range steps {
		fmt.Fprintf(&b, "%d. %s %s", i+1, s.Tool, s.Argument)
		if s.Need != nil {
			fmt.Fprintf(&b, "%s%s of the %s%s%d", needMark, s.Need.Attribute, s.Need.Subject, fromMark, s.Need.Step)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var units = strings.Fields("metres marks tons years crowns miles persons barrels")

// The names of the things that there are. None of them exists.
var (
	firstNames = strings.Fields(`Alder Amber Ashen Basalt Birch Bracken Brindle Cinder Clover Copper Coral Dapple Elder
		Ember Fallow Fennel Flint Garnet Gorse Harrow Hazel Heron Ivory Juniper Kestrel Larch Linden Marram Merle Onyx
		Osprey Pewter Quartz Rowan Russet Sable Sedge Sorrel Tawny Teasel`)
	secondNames = strings.Fields(`Anchorage Aqueduct Basin Beacon Boathouse Breakwater Bridge Causeway Cistern Crane
		Culvert Drydock Dyke Ferry Foundry Granary Groyne Harbour Jetty Landing Lantern Lifeboat Lighthouse Lock Mole
		Pier Pontoon Quay Ropewalk Sailloft Shipyard Slipway Sluice Staithe Tidemill Towpath Tramway Viaduct Weir Wharf`)
)
