package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxFileBytes is the most bytes that a file of the service may have.
const maxFileBytes = 8 << 20

func (c *cli) putCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "put PATH",
		Short: "Store the bytes of standard input as a file",
		Long: `Put stores what comes on standard input as a file, whatever the bytes are, and
makes the directories above it. A file that is there is replaced. Nothing is
stored before all bytes have come.`,
		Example: `  memoryctl put /memories/logo.png < logo.png
  tar c docs | memoryctl put /memories/docs.tar`,
		GroupID:           groupFiles,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			if c.isTerminal(c.stdin) {
				return usageErrorf("put reads standard input: memoryctl put PATH < FILE")
			}
			in := c.input(ctx)
			defer func() { _ = in.Close() }() // never fails
			// Read first, so that the time that somebody takes to send the bytes is not that of the call.
			head, err := io.ReadAll(io.LimitReader(in, maxFileBytes))
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			ctx, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			resp, err := m.Put(ctx, &memoryv1.PutHeader{Namespace: c.namespace, Path: args[0]},
				io.MultiReader(bytes.NewReader(head), in))
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
}

func (c *cli) getCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get PATH",
		Short: "Write the bytes of a file to standard output",
		Long: `Get writes the bytes of a file to standard output, unchanged and without line
numbers. Nothing is written before the whole file has come.`,
		Example: `  memoryctl get /memories/logo.png > logo.png
  memoryctl get /memories/notes.md | wc`,
		GroupID:           groupFiles,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			if c.output == outputJSON {
				return usageErrorf("get writes the bytes of the file and has no -o json")
			}
			ctx, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			var content bytes.Buffer
			header, err := m.Get(ctx, &memoryv1.GetRequest{Namespace: c.namespace, Path: args[0]}, &content)
			switch {
			case err != nil:
				return err
			case header.GetResult().GetIsError():
				return c.printResult(header)
			}
			if _, err := content.WriteTo(c.stdout); err != nil {
				return fmt.Errorf("write standard output: %w", err)
			}
			return nil
		}),
	}
}
