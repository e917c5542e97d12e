package main

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) pinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pin PATH...",
		Short: "Keep files from expiring",
		Long: `Pin keeps files from expiring, however long nobody views them. A file stays
pinned when it is edited, replaced or moved, until it is unpinned or deleted.
An export does not say which files are pinned.`,
		Example: `  memoryctl pin /memories/rules.md
  memoryctl pin /memories/rules.md /memories/people/ada.md
  memoryctl tree -o json | jq -r '.entries[] | select(.pinned).path'`,
		GroupID:           groupFiles,
		Args:              arguments(1, math.MaxInt),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              c.call(c.pinner("Pinned ", false)),
	}
}

func (c *cli) unpinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unpin PATH...",
		Short: "Let files expire again",
		Long: `Unpin lets files expire again that were pinned. That counts as a change of the
file: its time begins anew.`,
		Example:           `  memoryctl unpin /memories/rules.md`,
		GroupID:           groupFiles,
		Args:              arguments(1, math.MaxInt),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              c.call(c.pinner("Unpinned ", true)),
	}
}

// pinner pins files, or unpins them, and goes on after one that does not exist.
func (c *cli) pinner(done string, unpin bool) remoteFunc {
	return func(ctx context.Context, m *client.Client, paths []string) error {
		var failed error
		for _, path := range paths {
			resp, err := m.Pin(ctx, &memoryv1.PinRequest{Namespace: c.namespace, Path: path, Unpin: unpin})
			if err != nil {
				return err
			}
			if c.output == outputTable && !resp.GetResult().GetIsError() {
				err = c.print(done + resp.GetEntry().GetPath() + "\n")
			} else if err = c.printResponse(resp); errors.Is(err, errErrorResult) {
				failed, err = err, nil
			}
			if err != nil {
				return err
			}
		}
		return failed
	}
}
