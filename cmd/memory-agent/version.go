package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print what was built",
		Example: "  memory-agent version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := fmt.Fprintf(c.stdout, "memory-agent %s\n", buildinfo.String()); err != nil {
				return fmt.Errorf("write standard output: %w", err)
			}
			return nil
		},
	}
}
