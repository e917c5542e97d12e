package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a backup, as restore does, and change nothing",
		Args:  oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := server.Verify(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("verify %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a whole backup. %s\n", args[0], summary(report))
			return err
		},
	}
}
