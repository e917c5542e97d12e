package anthropictool

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// runnerPrefix is what the tool runners put before the text of an error.
const runnerPrefix = "Error: "

// runnerResult returns a result as a tool returns it to a runner, which makes one text of an error.
func runnerResult(r client.Result) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	if r.IsError {
		return nil, errors.New(strings.TrimPrefix(r.Text(), runnerPrefix))
	}
	return betaContent(r), nil
}

// runnerToolResult returns what a runner makes of runnerResult.
func runnerToolResult(id string, r client.Result) anthropic.BetaToolResultBlockParam {
	content, err := runnerResult(r)
	if err != nil {
		return anthropic.NewBetaToolResultTextBlockParam(id, runnerPrefix+err.Error(), true)
	}
	return anthropic.BetaToolResultBlockParam{ToolUseID: id, Content: content}
}

func toolResult(id string, r client.Result) anthropic.ToolResultBlockParam {
	return anthropic.ToolResultBlockParam{
		ToolUseID: id,
		IsError:   anthropic.Bool(r.IsError),
		Content: blocks(r,
			func(text string) anthropic.ToolResultBlockParamContentUnion {
				return anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: text}}
			},
			func(mediaType, data string) anthropic.ToolResultBlockParamContentUnion {
				source := anthropic.Base64ImageSourceParam{
					MediaType: anthropic.Base64ImageSourceMediaType(mediaType), Data: data,
				}
				return anthropic.ToolResultBlockParamContentUnion{OfImage: &anthropic.ImageBlockParam{
					Source: anthropic.ImageBlockParamSourceUnion{OfBase64: &source},
				}}
			}),
	}
}

func betaToolResult(id string, r client.Result) anthropic.BetaToolResultBlockParam {
	return anthropic.BetaToolResultBlockParam{
		ToolUseID: id, IsError: anthropic.Bool(r.IsError), Content: betaContent(r),
	}
}

func betaContent(r client.Result) []anthropic.BetaToolResultBlockParamContentUnion {
	return blocks(r,
		func(text string) anthropic.BetaToolResultBlockParamContentUnion {
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: text}}
		},
		func(mediaType, data string) anthropic.BetaToolResultBlockParamContentUnion {
			source := anthropic.BetaBase64ImageSourceParam{
				MediaType: anthropic.BetaBase64ImageSourceMediaType(mediaType), Data: data,
			}
			return anthropic.BetaToolResultBlockParamContentUnion{OfImage: &anthropic.BetaImageBlockParam{
				Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &source},
			}}
		})
}

// blocks returns the content of a result as blocks of the SDK. A kind of block that this version does not know is left
// out, as client.MarshalToolResult has it.
func blocks[T any](r client.Result, text func(text string) T, image func(mediaType, data string) T) []T {
	content := make([]T, 0, len(r.Content))
	for _, c := range r.Content {
		switch block := c.GetBlock().(type) {
		case *memoryv1.Content_Text:
			content = append(content, text(block.Text))
		case *memoryv1.Content_Image:
			data := base64.StdEncoding.EncodeToString(block.Image.GetData())
			content = append(content, image(block.Image.GetMediaType(), data))
		}
	}
	return content
}
