package simulation

import (
	"bytes"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// ContextWindow is the size, in tokens, of the context window that many models have; others have 1,000,000
// (https://platform.claude.com/docs/en/build-with-claude/context-windows).
const ContextWindow = 200_000

// Counts is what came of one run.
type Counts struct {
	// Requests is how many requests there were: one for each step, one for the report, and those that the setting
	// causes.
	Requests int `json:"requests"`
	// InputTokens is what the model was shown in all requests together, PeakTokens in the largest.
	InputTokens int `json:"input_tokens"`
	PeakTokens  int `json:"peak_tokens"`
	// Exhausted is the first request, from 1, that is larger than ContextWindow; 0 if none is.
	Exhausted int `json:"exhausted"`
	// CachedCost is what the input costs with prompt caching, in input tokens without.
	CachedCost int `json:"cached_cost"`
	// Clearings is in how many requests results were missing that had been there in the one before.
	Clearings int `json:"clearings"`
	// NeededAgain is how often something of a result was needed that had been cleared: InMemory of them had been noted,
	// SearchedAgain had to be looked up a second time.
	NeededAgain   int `json:"needed_again"`
	InMemory      int `json:"in_memory"`
	SearchedAgain int `json:"searched_again"`
}

// What prompt caching costs, in hundredths of what an input token costs without it: a token that is read from the
// cache, and one that is written to it for five minutes. Some models read for less
// (https://platform.claude.com/docs/en/build-with-claude/prompt-caching).
const (
	cacheReadCost  = 10
	cacheWriteCost = 125
)

// cacheLookback is how many blocks before a breakpoint the API looks for something in the cache (same page).
const cacheLookback = 20

// tally counts what the model is shown, from request to request. Not safe for concurrent use.
type tally struct {
	count func(text string) int // of tokens; the same that the API counts with

	requests, input, peak int
	exhausted             int // the first request that is larger than ContextWindow
	clearings             int // requests that are the first to be without some result
	cost                  int // with prompt caching, in hundredths of an input token

	cleared []byte   // a byte for each result in the prompt: 1 if it is cleared
	cache   []prefix // what is in the prompt cache, oldest first
}

// prefix is a beginning of the conversation, up to the end of some request.
type prefix struct {
	cleared []byte // of its results
	blocks  int
	tokens  int
}

// add counts a request.
func (t *tally) add(req *claudetest.Request) {
	t.requests++
	t.input += req.InputTokens
	t.peak = max(t.peak, req.InputTokens)
	if req.InputTokens > ContextWindow && t.exhausted == 0 {
		t.exhausted = t.requests
	}

	now := prefix{tokens: req.InputTokens}
	for _, m := range req.Messages {
		now.blocks += len(m.Content)
	}
	for _, call := range req.Calls() {
		if call.Answered {
			now.cleared = append(now.cleared, flag(isCleared(call.Result)))
		}
	}
	if bytes.Count(now.cleared, []byte{1}) > bytes.Count(t.cleared, []byte{1}) {
		t.clearings++
	}
	t.cleared = now.cleared

	read := t.cached(now)
	t.cost += read*cacheReadCost + (now.tokens-read)*cacheWriteCost
	if req.Warning != "" { // not there the next time
		now.blocks--
		now.tokens -= t.count(req.Warning)
	}
	t.cache = append(t.cache, now)
}

// counts returns what was counted.
func (t *tally) counts() Counts {
	return Counts{
		Requests: t.requests, InputTokens: t.input, PeakTokens: t.peak, Exhausted: t.exhausted,
		Clearings: t.clearings, CachedCost: (t.cost + 50) / 100,
	}
}

// cached returns how many tokens of a prompt are in the cache. There are two breakpoints: one after the task, which
// stays where it is, and one at the end of the prompt.
func (t *tally) cached(now prefix) int {
	for i := len(t.cache) - 1; i >= 0; i-- {
		p := t.cache[i]
		if i > 0 && now.blocks-p.blocks > cacheLookback {
			continue
		}
		if bytes.HasPrefix(now.cleared, p.cleared) {
			return p.tokens
		}
	}
	return 0
}

// isCleared tells whether the content of a tool result is gone, be it that the API or that the client cleared it.
func isCleared(result claudetest.ToolResult) bool {
	return result.Cleared || result.Text == claudetest.ClearedText
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}
