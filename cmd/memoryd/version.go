package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "memoryd %s\n", buildinfo.String())
			return err
		},
	}
}
