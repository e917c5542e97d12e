package simulation

import (
	"strconv"
	"strings"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// sizeMark begins a text that stands for a longer one: after it comes how many tokens the longer one has. So a run of
// millions of tokens is played in seconds.
const sizeMark = "tokens:"

func sizedText(tokens int) string { return sizeMark + strconv.Itoa(tokens) }

// tokensOf returns how many tokens a text stands for, if it says so.
func tokensOf(text string) (tokens int, sized bool) {
	rest, sized := strings.CutPrefix(text, sizeMark)
	if !sized {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "\n")
	tokens, err := strconv.Atoi(number)
	return tokens, err == nil
}

// countTokens is the token counter of a generated run: an estimate, but for the results, whose size was drawn.
func countTokens(text string) int {
	if tokens, sized := tokensOf(text); sized {
		return tokens
	}
	return claudetest.EstimateTokens(text)
}
