package simulation

import (
	"context"
	"fmt"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

const systemPrompt = "You are a research assistant. You work through the plan that you are given, step by step, with " +
	"the tools that you have."

// player plays a generated run.
type player struct {
	research *Research
	model    model
	count    func(text string) int // of tokens
}

// newPlayer returns a player of the run that the table is about.
func newPlayer(r *Research) *player {
	return &player{r, model{reasons: 1, notedPercent: defaultNotedPercent}, countTokens}
}

// play plays the run under a setting, from the task to the report.
func (p *player) play(ctx context.Context, s Setting) (Counts, error) {
	var mu sync.Mutex // the API calls the model on goroutines of its own
	t := tally{count: p.count}
	var found [inAgain + 1]int
	m := p.model
	m.found = func(from source) { found[from]++ }
	respond := func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		mu.Lock()
		defer mu.Unlock()
		t.add(req)
		return m.Respond(ctx, req)
	}
	api, err := claudetest.Start(claudetest.ModelFunc(respond),
		claudetest.WithTokenCounter(p.count), claudetest.WithoutBodies())
	if err != nil {
		return Counts{}, err
	}
	defer api.Close()

	if err := p.converse(ctx, api, s); err != nil {
		return Counts{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	c := t.counts()
	c.InMemory, c.SearchedAgain = found[inMemory], found[inAgain]
	c.NeededAgain = c.InMemory + c.SearchedAgain
	return c, nil
}

// converse is the agent: it gives the task and runs the calls of the model, until that makes none.
func (p *player) converse(ctx context.Context, api *claudetest.API, s Setting) error {
	c, err := newConversation(api, s, systemPrompt, definitions(s.Memory))
	if err != nil {
		return err
	}
	tools := newTools(p.research)
	next := anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(p.research.Brief))
	for request := 1; ; request++ {
		answer, err := c.send(ctx, next)
		if err != nil {
			return fmt.Errorf("request %d: %w", request, err)
		}
		results, err := tools.run(answer)
		if err != nil {
			return fmt.Errorf("request %d: %w", request, err)
		}
		if len(results) == 0 {
			return nil
		}
		next = anthropic.NewBetaUserMessage(results...)
	}
}
