package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newCompactCommand(lookupEnv lookupEnv) *cobra.Command {
	return offlineCommand(lookupEnv, &cobra.Command{
		Use:   "compact",
		Short: "Give unused space in --data back to the disk while no service runs on it",
		Long: `Compact copies the memories in --data to a new file without unused space, checks it, and puts it in the place
of the old one. While the service runs, space that is no longer used is used again but not given back.

It needs room for the new file beside the old one. If it is interrupted, the memories are all there. Memories that are
encrypted take the keyset of the service, --encryption-keyset, to be checked first.`,
		Args: noArgs,
	}, func(cmd *cobra.Command, _ []string, s *settings) error {
		logger, err := s.logger(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		dir := s.values.String(keyData)
		report, err := server.Compact(cmd.Context(), dir, s.keyset(), logger)
		if err != nil {
			return s.explain(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s was compacted. Bytes before: %d. Bytes after: %d.\n",
			dir, report.Before, report.After)
		return err
	})
}
