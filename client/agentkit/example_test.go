package agentkit_test

import (
	"context"
	"log"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
)

// task is what the agent is asked, with the memory of the project before it.
func task(memory string) anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 16_000,
		System: []anthropic.BetaTextBlockParam{
			{Text: agentkit.PromptSessions},
			{Text: memory, CacheControl: anthropic.NewBetaCacheControlEphemeralParam()},
		},
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Carry on."))},
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
	memory := c.Handler("acme/shop", client.WithSession("run-7"))
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil,
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: params})
	last, err := runner.RunToCompletion(ctx)
	outcome := agentkit.Outcome{Err: err}
	if err == nil {
		outcome.Done = last.Content[len(last.Content)-1].Text
	}
	if err := session.Close(ctx, outcome); err != nil {
		log.Fatal(err)
	}
}
