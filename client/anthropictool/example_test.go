package anthropictool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
)

// An agent with a memory and no other tools.
func Example() {
	memoryd, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer memoryd.Close()
	memory := memoryd.Handler("acme/support/user-42", client.WithSession("run-7"))

	claude := anthropic.NewClient()
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil, anthropic.BetaToolRunnerParams{
		BetaMessageNewParams: anthropic.BetaMessageNewParams{
			Model:     anthropic.ModelClaudeSonnet5_5,
			MaxTokens: 4096,
			Messages: []anthropic.BetaMessageParam{
				anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Hi, do you remember me?")),
			},
		},
	})
	answer, err := runner.RunToCompletion(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Content[len(answer.Content)-1].Text)
}

// A runner over a message thread gets the definition, the tool and the binding one by one.
func ExampleTool_Bind() {
	memoryd, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer memoryd.Close()

	claude := anthropic.NewClient()
	thread := claude.Beta.Messages.NewThread(anthropictool.ThreadParams(anthropic.BetaMessageThreadCreateParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 4096,
		Messages: []anthropic.BetaMessageParam{
			anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Hi, do you remember me?")),
		},
	}))
	tool := anthropictool.New(memoryd.Handler("acme/support/user-42"))
	runner := thread.NewToolRunner([]anthropic.BetaTool{tool})
	tool.Bind(runner)
	for message, err := range runner.All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.StopReason)
	}
}

// A request failed, or its context ended while the tools ran. A new runner carries on where the old one is.
func ExampleTool_Results() {
	memoryd, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer memoryd.Close()
	memory := memoryd.Handler("acme/support/user-42", client.WithSession("run-7"))

	claude, ctx := anthropic.NewClient(), context.Background()
	params := anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropictool.Params(anthropic.BetaMessageNewParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 4096,
		Messages: []anthropic.BetaMessageParam{
			anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Hi, do you remember me?")),
		},
	})}
	for range 3 {
		tool := anthropictool.New(memory)
		runner := claude.Beta.Messages.NewToolRunner([]anthropic.BetaTool{tool}, params)
		tool.Bind(runner)
		if _, err = runner.RunToCompletion(ctx); err == nil {
			break
		}
		params.Messages = runner.Messages()
		if runner.LastMessage() == nil {
			continue // there was no answer yet
		}
		for params.Messages[len(params.Messages)-1].OfAssistant == nil {
			params.Messages = params.Messages[:len(params.Messages)-1]
		}
		if results := tool.Results(ctx); len(results) > 0 {
			params.Messages = append(params.Messages, anthropic.NewBetaUserMessage(results...))
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A loop that is written by hand.
func ExampleHandleMessage() {
	memoryd, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer memoryd.Close()
	memory := memoryd.Handler("acme/support/user-42", client.WithSession("run-7"))

	claude, ctx := anthropic.NewClient(), context.Background()
	params := anthropictool.MessageParams(anthropic.MessageNewParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 4096,
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(anthropic.NewTextBlock("Hi, do you remember me?")),
		},
	})
	for {
		message, err := claude.Messages.New(ctx, params)
		if err != nil {
			log.Fatal(err)
		}
		results := anthropictool.HandleMessage(ctx, memory, message)
		if len(results) == 0 {
			break
		}
		params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(results...))
	}
}

// A process that was killed left the last message of the model in a file. The next one makes what is left of its calls,
// and tries those again that failed.
func ExampleHandleBetaMessage_afterACrash() {
	memoryd, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer memoryd.Close()
	memory := memoryd.Handler("acme/support/user-42", client.WithSession("run-7")) // the session of the one before

	var saved []byte // what RawJSON of the message returned
	var message anthropic.BetaMessage
	if err := json.Unmarshal(saved, &message); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	var params anthropic.BetaToolRunnerParams // with the messages up to the saved one
	params.Messages = append(params.Messages, message.ToParam())
	if results := anthropictool.HandleBetaMessage(ctx, memory, &message); len(results) > 0 {
		params.Messages = append(params.Messages, anthropic.NewBetaUserMessage(results...))
	}
	claude := anthropic.NewClient()
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil, params)
	if _, err := runner.RunToCompletion(ctx); err != nil {
		log.Fatal(err)
	}
}
