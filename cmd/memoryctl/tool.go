package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxSessionBytes is the longest name of a session that the service takes.
const maxSessionBytes = 128

func (c *cli) toolCommand() *cobra.Command {
	var session string
	var guard bool
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "Answer tool calls, one a line, for an agent in any language",
		Long: `Tool is for agents: start it as a child process, write one JSON value a line to
its standard input, and read one tool_result object a line from its standard
output. Lines are answered in order, each as soon as it has come, and may be of
any length. Blank lines are skipped.

A line is a tool_use block as the Messages API gives it, with "type":"tool_use";
its answer has the id of the block as tool_use_id. Or it is only the input of
one; then tool_use_id is there and empty. A line that is neither is answered all
the same, with an error as its result, and so is a call for which memoryd cannot
be reached: the model reads what to do about it.

Where memoryd is away, calls wait up to 10 seconds for it to come back, within
--timeout, and fail at once after that until it is back. A call whose answer was
lost is made again under the same id, so that nothing is done twice; with
--session, the session is a part of that id, so that the ids of calls need to be
unique in it only; without, in the namespace. A line that comes again in another
run of "memoryctl tool" with the same session has the answer that it had.

The exit status is 0 when standard input ends, whatever the results were.`,
		Example: `  $ echo '{"command":"view","path":"/memories"}' | memoryctl tool
  {"type":"tool_result","tool_use_id":"","content":"Here're the files ...","is_error":false}

  $ memoryctl -n acme/user-42 tool --session run-7 < calls.jsonl > results.jsonl`,
		GroupID:           groupAgents,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRun: func(*cobra.Command, []string) {
			c.retryBudget = client.DefaultRetryBudget // an agent had better wait than do without its memory
		},
		RunE: c.call(func(ctx context.Context, m *client.Client, _ []string) error {
			if len(session) > maxSessionBytes {
				return usageErrorf("--session has more than %d bytes", maxSessionBytes)
			}
			in := c.input(ctx)
			defer func() { _ = in.Close() }() // never fails
			opts := []client.HandlerOption{
				client.WithSession(session),
				client.WithErrorFunc(func(err error) { c.complain("%s", c.explain(err, time.Time{})) }),
			}
			if guard {
				opts = append(opts, client.GuardStaleEdits())
			}
			return answerLines(ctx, m.Handler(c.namespace, opts...), in, c.stdout)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "",
		"`NAME` of the agent run, which makes the ids of its calls its own: at most 128 bytes")
	cmd.Flags().BoolVar(&guard, "guard-stale-edits", false,
		"refuse create, insert and delete of a file that someone else has changed since it was viewed here")
	must(cmd.RegisterFlagCompletionFunc("session", cobra.NoFileCompletions))
	return cmd
}

// answerLines writes a tool_result for every line of in, each before it waits for the next.
func answerLines(ctx context.Context, h *client.Handler, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return fmt.Errorf("read standard input: %w", err) // what was read is not the whole line
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			if _, err := out.Write(append(answer(ctx, h, line), '\n')); err != nil {
				return fmt.Errorf("write standard output: %w", err)
			}
		}
		if ended {
			return nil
		}
	}
}

// answer executes a line and returns its tool_result.
func answer(ctx context.Context, h *client.Handler, line []byte) []byte {
	result, err := h.HandleToolUse(ctx, line)
	switch {
	case err == nil:
		return result
	case isToolUse(line):
		return client.MarshalToolResult("", client.Result{
			IsError: true,
			Content: []*memoryv1.Content{
				{Block: &memoryv1.Content_Text{Text: "Error: The tool_use block has no id"}},
			},
		})
	}
	// The service says what is wrong with a line that is no input either.
	return client.MarshalToolResult("", h.Handle(ctx, line))
}

func isToolUse(line []byte) bool {
	var block map[string]any // of a struct, encoding/json would also set a field from a "Type"
	return json.Unmarshal(line, &block) == nil && block["type"] == "tool_use"
}
