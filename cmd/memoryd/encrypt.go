package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newEncryptCommand(lookupEnv lookupEnv) *cobra.Command {
	return offlineCommand(lookupEnv, &cobra.Command{
		Use:   "encrypt",
		Short: "Encrypt the memories in --data while no service runs on them",
		Long: `Encrypt copies the memories in --data to a new file that is encrypted with the keyset of --encryption-keyset,
compares the two, and puts the new one in the place of the old one, which is kept beside it as
memoryd.db.before-encrypt-TIME. From then on the service takes the keyset too.

Delete the old file when the service works: it is not encrypted. Neither are backups that were made before.

It needs room for the new file beside the old one. If it is interrupted, the memories are the old or the new ones.`,
		Example: `  memoryd keyset new --encryption-keyset /etc/memoryd/keyset.json
  memoryd encrypt --data /var/lib/memoryd --encryption-keyset /etc/memoryd/keyset.json`,
		Args: noArgs,
	}, func(cmd *cobra.Command, _ []string, s *settings) error {
		logger, err := s.logger(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		dir := s.values.String(keyData)
		report, err := server.Encrypt(cmd.Context(), dir, s.keyset(), logger)
		if err != nil {
			return s.explain(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is encrypted. %s\n"+
			"What was there is kept as %s, which is not encrypted: delete it when the service works.\n",
			dir, summary(report.Encrypted), report.Kept)
		return err
	})
}
