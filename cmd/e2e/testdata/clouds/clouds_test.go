// Package clouds tests the memory tool with the clients of the SDK for Amazon Bedrock and Google Vertex AI. It is a
// module of its own because they need the SDKs of both clouds, which memoryd does not.
package clouds

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/bedrock"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/vertex"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const (
	model = "claude-sonnet-test"
	beta  = "context-management-2025-06-27"
)

// clouds have a client of the SDK each, with made-up credentials, and an endpoint that takes what such a client sends.
var clouds = []struct {
	name     string
	options  func() option.RequestOption
	endpoint func(t *testing.T, api *claudetest.API) http.Handler
}{
	{
		"Bedrock",
		func() option.RequestOption {
			return bedrock.WithConfig(aws.Config{
				Region: "eu-north-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
			})
		},
		bedrockEndpoint,
	},
	{
		"Vertex",
		func() option.RequestOption {
			return vertex.WithCredentials(context.Background(), "europe-north1", "project", &google.Credentials{
				TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}),
			})
		},
		vertexEndpoint,
	},
}

// agents are the ways in which an agent can have the memory tool.
var agents = []struct {
	name string
	run  func(ctx context.Context, claude anthropic.Client, memory *client.Handler) error
}{
	{"runner", func(ctx context.Context, claude anthropic.Client, memory *client.Handler) error {
		_, err := anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil, runnerParams()).RunToCompletion(ctx)
		return err
	}},
	{"streaming runner", func(ctx context.Context, claude anthropic.Client, memory *client.Handler) error {
		runner := anthropictool.NewToolRunnerStreaming(&claude.Beta.Messages, memory, nil, runnerParams())
		for events := range runner.AllStreaming(ctx) {
			for _, err := range events {
				if err != nil {
					return err
				}
			}
		}
		return nil
	}},
	{"loop", func(ctx context.Context, claude anthropic.Client, memory *client.Handler) error {
		params := anthropictool.Params(runnerParams().BetaMessageNewParams)
		for {
			message, err := claude.Beta.Messages.New(ctx, params)
			if err != nil {
				return err
			}
			results := anthropictool.HandleBetaMessage(ctx, memory, message)
			if len(results) == 0 {
				return nil
			}
			params.Messages = append(params.Messages, message.ToParam(), anthropic.NewBetaUserMessage(results...))
		}
	}},
	{"loop without beta", func(ctx context.Context, claude anthropic.Client, memory *client.Handler) error {
		params := anthropictool.MessageParams(anthropic.MessageNewParams{
			Model: model, MaxTokens: 1024,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go on."))},
		})
		for {
			message, err := claude.Messages.New(ctx, params, option.WithHeader("anthropic-beta", beta))
			if err != nil {
				return err
			}
			results := anthropictool.HandleMessage(ctx, memory, message)
			if len(results) == 0 {
				return nil
			}
			params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(results...))
		}
	}},
}

func runnerParams() anthropic.BetaToolRunnerParams {
	return anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{
		Model: model, MaxTokens: 1024, Betas: []anthropic.AnthropicBeta{beta},
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Go on."))},
	}}
}

func TestClouds(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "") // would win over the credentials of this test
	for _, cloud := range clouds {
		for _, agent := range agents {
			t.Run(cloud.name+"/"+agent.name, func(t *testing.T) {
				memory := servertest.New(t).Client.Handler("clouds")
				script := claudetest.Script(
					claudetest.Use(
						claudetest.Call("memory", input{"command": "create", "path": "/memories/f", "file_text": "a < b\n"}),
						claudetest.Call("memory", input{
							"command": "str_replace", "path": "/memories/f", "old_str": "a", "new_str": "é",
						}),
					),
					claudetest.Use(claudetest.Call("memory", input{"command": "view", "path": "/memories/f"})),
					claudetest.Say("Done."),
				)
				var got []string
				api := claudetest.New(t, claudetest.ModelFunc(
					func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
						for _, result := range req.ToolResults() {
							got = append(got, result.Text)
						}
						return script.Respond(ctx, req)
					}))
				endpoint := httptest.NewServer(cloud.endpoint(t, api))
				defer endpoint.Close()
				claude := anthropic.NewClient(cloud.options(), option.WithBaseURL(endpoint.URL), option.WithMaxRetries(0))
				if err := agent.run(t.Context(), claude, memory); err != nil {
					t.Fatal(err)
				}

				want := []string{
					"File created successfully at: /memories/f",
					"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
						"     1\té < b\n     2\t",
					"Here's the content of /memories/f with line numbers:\n     1\té < b\n     2\t",
				}
				if !slices.Equal(got, want) {
					t.Errorf("results %q, want %q", got, want)
				}
				for i, request := range api.Requests() {
					if tools := tools(t, request.Body); tools != `[{"name":"memory","type":"memory_20250818"}]` {
						t.Errorf("request %d: tools %s", i+1, tools)
					}
					if !slices.Equal(request.Betas, []string{beta}) {
						t.Errorf("request %d: beta headers %q, want %q", i+1, request.Betas, beta)
					}
				}
			})
		}
	}
}

// input is the input of a command.
type input map[string]string
