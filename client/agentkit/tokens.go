package agentkit

import "slices"

// bytesPerToken is about what a token of English text has.
const bytesPerToken = 4

// EstimateTokens is a token for every 4 bytes, rounded up. It is an estimate and nothing else: code and languages other
// than English have more tokens. Who must be exact counts with WithTokenCounter.
func EstimateTokens(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// shares divides a budget. What is smaller than its share gets what it needs, and leaves the rest to the larger ones,
// which get the same.
func shares(sizes []int, budget int) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return sizes[a] - sizes[b] })
	result := make([]int, len(sizes))
	for n, i := range order {
		result[i] = min(sizes[i], budget/(len(order)-n))
		budget -= result[i]
	}
	return result
}
