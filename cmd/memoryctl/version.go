package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.print("memoryctl " + buildinfo.String() + "\n")
		},
	}
}
