package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newVerifyCommand(lookupEnv lookupEnv) *cobra.Command {
	return offlineCommand(lookupEnv, &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a backup, as restore does, and change nothing",
		Long: `Verify reads a whole backup and names what is damaged. A backup of memories that were encrypted takes their
keyset, --encryption-keyset.`,
		Args: oneFile,
	}, func(cmd *cobra.Command, args []string, s *settings) error {
		report, err := server.Verify(cmd.Context(), args[0], s.keyset())
		if err != nil {
			return s.explain(adviseNoBackup(fmt.Errorf("verify %s: %w", args[0], err)))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a whole backup. %s\n", args[0], summary(report))
		return err
	})
}
