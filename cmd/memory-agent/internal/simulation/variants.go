package simulation

// variant is a run, or a setting, that differs in one thing from those of the table.
type variant struct {
	name    string
	player  *player
	setting Setting
}

// The setting whose variants are played, if the grid has it.
const (
	variedTrigger = 30_000
	variedKeep    = 3
)

// variants returns what would change the result, the chosen numbers of generator and model among it.
func (o Options) variants(g Generator, p *player) []variant {
	s := o.setting(true, nearest(o.Triggers, variedTrigger), nearest(o.Keeps, variedKeep))
	generated := func(change func(g *Generator)) *player {
		g := g
		change(&g)
		p := *p
		p.research = g.Generate()
		return &p
	}
	set := func(change func(s *Setting)) Setting {
		s := s
		change(&s)
		return s
	}
	other := func(change func(m *model)) *player {
		p := *p
		change(&p.model)
		return &p
	}
	held := "held"
	if s.Hold {
		held = "not held"
	}
	return []variant{
		{"as in the table", p, s},
		{"another seed", generated(func(g *Generator) { g.Seed++ }), s},
		{"pages half as long", generated(func(g *Generator) { g.PagePercent = 50 }), s},
		{"pages twice as long", generated(func(g *Generator) { g.PagePercent = 200 }), s},
		{"old results needed like new ones", generated(func(g *Generator) { g.FarBack = true }), s},
		{"5 times as much said in a turn", other(func(m *model) { m.reasons = 5 }), s},
		{"no memory", p, set(func(s *Setting) { s.Memory = false })},
		{"half of the facts noted", other(func(m *model) { m.notedPercent = 50 }), s},
		{"notes viewed for each use", other(func(m *model) { m.rereads = true }), s},
		{held, p, set(func(s *Setting) { s.Hold = !s.Hold })},
		{"held, 10,000 cleared at least", p, set(func(s *Setting) { s.Hold, s.ClearAtLeast = true, 10_000 })},
	}
}

// nearest returns the number that is nearest to another; the earlier one of two.
func nearest(numbers []int, to int) int {
	best := numbers[0]
	for _, n := range numbers {
		if max(n-to, to-n) < max(best-to, to-best) {
			best = n
		}
	}
	return best
}
