package simulation

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

const (
	// modelName is the name of the model in requests. It matters to nobody.
	modelName = "rules"
	// maxOutputTokens is the max_tokens of requests.
	maxOutputTokens = 1024
)

// conversation is a conversation with the API under a setting of context editing. It goes over a message thread, so
// that each request has what is new only.
type conversation struct {
	client   anthropic.Client
	setting  Setting
	params   anthropic.BetaMessageNewParams // of a first request, without messages
	history  []anthropic.BetaMessageParam
	previous string // the id of the answer that a thread has; empty where there is none
}

// newConversation returns a conversation in which nothing was said.
func newConversation(
	api *claudetest.API, s Setting, system string, tools []anthropic.BetaToolUnionParam,
) (*conversation, error) {
	params, err := s.edit(anthropic.BetaMessageNewParams{
		Model:     modelName,
		MaxTokens: maxOutputTokens,
		System:    []anthropic.BetaTextBlockParam{{Text: system}},
		Tools:     tools,
		Betas:     []anthropic.AnthropicBeta{anthropic.AnthropicBetaMessageThreads2026_08_12},
	})
	if err != nil {
		return nil, err
	}
	return &conversation{client: api.Client(), setting: s, params: params}, nil
}

// restart forgets what was said.
func (c *conversation) restart() { c.history, c.previous = nil, "" }

// send says something and returns the answer.
func (c *conversation) send(
	ctx context.Context, messages ...anthropic.BetaMessageParam,
) (*anthropic.BetaMessage, error) {
	c.history = append(c.history, messages...)
	params := c.params
	if c.previous == "" {
		params.Messages = c.history
		params.Thread.OfCreate = &anthropic.BetaThreadCreateParams{}
	} else {
		params.Messages = messages
		params.Thread.OfContinue = &anthropic.BetaThreadContinueParams{PreviousMessageID: c.previous}
		params.System, params.Tools = nil, nil // the thread has them
	}
	answer, err := c.client.Beta.Messages.New(ctx, params)
	if err != nil {
		return nil, err
	}
	c.history = append(c.history, answer.ToParam())
	c.previous = answer.ID
	if c.setting.Hold && c.setting.hold(c.history, answer) {
		c.previous = "" // the thread has what was cleared
	}
	return answer, nil
}
