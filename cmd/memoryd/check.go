package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newCheckCommand(lookupEnv lookupEnv) *cobra.Command {
	return offlineCommand(lookupEnv, &cobra.Command{
		Use:   "check",
		Short: "Verify the memories in --data while no service runs on them",
		Long: `Check reads everything in --data and names what is damaged. It changes nothing. Memories that are encrypted
take the keyset of the service, --encryption-keyset.`,
		Args: noArgs,
	}, func(cmd *cobra.Command, _ []string, s *settings) error {
		dir := s.values.String(keyData)
		report, err := server.Check(cmd.Context(), dir, s.keyset())
		if err != nil {
			return s.explain(fmt.Errorf("check %s: %w", dir, err))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is well-formed. %s\n", dir, summary(report))
		return err
	})
}

// summary says how much was checked.
func summary(r server.CheckReport) string {
	return fmt.Sprintf("Namespaces: %d. Files: %d. Bytes: %d.", r.Namespaces, r.Files, r.Bytes)
}
