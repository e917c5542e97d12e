package agentkit_test

import (
	"context"
	"log"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
)

// task is what the agent is asked, with the memory of the project before it. There are two cache breakpoints: after
// what is the same in every request of the session, and at the end of the conversation.
func task(memory string) anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 16_000,
		System: []anthropic.BetaTextBlockParam{
			{Text: agentkit.PromptSessions},
			{Text: memory, CacheControl: anthropic.NewBetaCacheControlEphemeralParam()},
		},
		Messages:     []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Carry on."))},
		CacheControl: anthropic.NewBetaCacheControlEphemeralParam(), // moves to the last block of every request
	}
}

// A session of an agent, from what it reads first to what it leaves to the next one.
func Example() {
	ctx := context.Background()
	c, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	project := agentkit.New(c, "acme/shop")
	plan := agentkit.Plan{Goal: "A shop for tea.", Features: []string{"list the goods", "a basket"}, StartScript: "./init.sh"}
	if _, err := project.Initialize(ctx, plan); err != nil { // does nothing from the second session on
		log.Fatal(err)
	}
	session, err := project.Resume(ctx, "run-7")
	if err != nil {
		log.Fatal(err)
	}
	params, err := agentkit.ManageContext(task(session.Context),
		agentkit.ClearToolUses{AtInputTokens: anthropic.Int(30_000), ClearAtLeast: anthropic.Int(5_000)}, agentkit.Compact{})
	if err != nil {
		log.Fatal(err)
	}
	claude := anthropic.NewClient()
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, session.Handler(), nil,
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: params})
	outcome := agentkit.OutcomeOf(runner.RunToCompletion(ctx))
	if err := session.Close(ctx, outcome); err != nil { // however the session has ended
		log.Fatal(err)
	}
	if outcome.Err != nil {
		log.Fatal(outcome.Err)
	}
}
