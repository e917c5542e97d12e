package claudetest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/toolrunner"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// ask is an agent: it answers a question about the weather.
func ask(ctx context.Context, client anthropic.Client, question string) (string, error) {
	type input struct {
		City string `json:"city"`
	}
	weather, err := toolrunner.NewBetaToolFromJSONSchema("weather", "The weather of a city.",
		func(_ context.Context, in input) (anthropic.BetaToolResultBlockParamContentUnion, error) {
			text := "It is sunny in " + in.City + "."
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: text}}, nil
		})
	if err != nil {
		return "", err
	}
	runner := client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{weather}, anthropic.BetaToolRunnerParams{
		BetaMessageNewParams: anthropic.BetaMessageNewParams{
			Model:     anthropic.ModelClaudeSonnet5_5,
			MaxTokens: 1024,
			Messages:  []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(question))},
		},
	})
	message, err := runner.RunToCompletion(ctx)
	if err != nil {
		return "", err
	}
	return message.Content[0].Text, nil
}

// A script plays the model, here with an API that is overloaded at first. In a test, New takes the place of Start: it
// closes the API and reports what does not go by the script.
func Example() {
	api, err := claudetest.Start(claudetest.Script(
		claudetest.Use(claudetest.Call("weather", map[string]string{"city": "Oslo"})),
		claudetest.Say("Take your sunglasses."),
	))
	if err != nil {
		log.Fatal(err)
	}
	defer api.Close()
	overloaded := claudetest.Overloaded()
	overloaded.RetryAfter = time.Millisecond
	api.FailNext(1, overloaded)

	client := anthropic.NewClient(append(api.ClientOptions(), option.WithMaxRetries(2))...)
	answer, err := ask(context.Background(), client, "What do I need in Oslo?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	for _, r := range api.Requests() {
		fmt.Println(r.Method, r.Path, r.Status)
	}
	// Output:
	// Take your sunglasses.
	// POST /v1/messages 529
	// POST /v1/messages 200
	// POST /v1/messages 200
}

// A function plays the model: it decides by what it is shown.
func ExampleModelFunc() {
	model := func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if results := req.ToolResults(); len(results) > 0 {
			return claudetest.Say("I was told: " + results[0].Text), nil
		}
		return claudetest.Use(claudetest.Call("weather", map[string]string{"city": req.LastText()})), nil
	}
	api, err := claudetest.Start(claudetest.ModelFunc(model))
	if err != nil {
		log.Fatal(err)
	}
	defer api.Close()

	for _, city := range []string{"Oslo", "Rome"} {
		answer, err := ask(context.Background(), api.Client(), city)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer)
	}
	// Output:
	// I was told: It is sunny in Oslo.
	// I was told: It is sunny in Rome.
}
