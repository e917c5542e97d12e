package claudetest

import "fmt"

// imageTokens is what an image counts for, whatever its size: about what the API counts for a picture of
// 1,000 by 1,000 pixels (https://platform.claude.com/docs/en/build-with-claude/vision).
const imageTokens = 1334

// EstimateTokens is how tokens are counted unless WithTokenCounter says otherwise: one for every 4 bytes, rounded up.
// It is an estimate and nothing else: Claude's tokenizer is not public. The same text always has the same number.
func EstimateTokens(text string) int { return (len(text) + 3) / 4 }

// A counter counts the tokens of the parts of a prompt.
type counter func(text string) int

// A counterError is what is wrong with the counter of a test. It is panicked with: counts are taken in too many places
// for an error each.
type counterError struct{ error }

// checked returns the counter with what is wrong with it as a counterError.
func (count counter) checked() counter {
	return func(text string) int {
		defer func() {
			if p := recover(); p != nil {
				panic(counterError{fmt.Errorf("the token counter panicked: %v", p)})
			}
		}()
		return count(text)
	}
}

// prompt counts a system prompt, tools and messages. Roles, ids and the JSON around the texts count nothing.
func (count counter) prompt(system []Block, tools []Tool, messages []Message) int {
	n := count.blocks(system)
	for _, t := range tools {
		n += count(string(t.Raw))
	}
	for _, m := range messages {
		n += count.blocks(m.Content)
	}
	return n
}

// output counts what the model said, which is never nothing.
func (count counter) output(blocks []Block) int { return max(count.blocks(blocks), 1) }

func (count counter) blocks(blocks []Block) int {
	n := 0
	for _, b := range blocks {
		n += count.block(b)
	}
	return n
}

func (count counter) block(b Block) int {
	switch b.Type {
	case typeText, typeThinking, typeCompaction:
		return count(b.Text)
	case typeToolUse:
		return count(b.Name) + count(string(b.Input))
	case typeToolResult:
		return count.blocks(b.Content)
	case typeImage:
		return imageTokens
	default:
		return count(string(b.Raw))
	}
}
