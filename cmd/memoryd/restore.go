package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

func newRestoreCommand(lookupEnv lookupEnv) *cobra.Command {
	var force bool
	cmd := offlineCommand(lookupEnv, &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of the memories in --data while no service runs on them",
		Long: `Restore verifies a backup, which "memoryctl backup" or the service itself made, and only then puts its content
in the place of the memories in --data. A file that was cut off or changed is refused. With --force the memories that
are there are kept beside the new ones, as memoryd.db.before-restore-TIME: to go back to them, rename that file to
memoryd.db while no service runs.

It needs room for the backup beside what is there. If it is interrupted, the memories are the old or the new ones. A
backup of memories that were encrypted takes their keyset, --encryption-keyset. One of memories that were not is
restored without, and "memoryd encrypt" encrypts them then.`,
		Example: "  memoryd restore --data ./memoryd-data memoryd-20260102T030405Z.backup",
		Args:    oneFile,
	}, func(cmd *cobra.Command, args []string, s *settings) error {
		dir := s.values.String(keyData)
		if dir == "" {
			return s.invalid(keyData, "it must be a directory")
		}
		report, err := server.Restore(cmd.Context(), server.RestoreOptions{
			File: args[0], Data: dir, Keyset: s.keyset(), Force: force,
		})
		if errors.Is(err, boltkv.ErrStoreExists) {
			err = fmt.Errorf("%w; --force keeps it beside the new one", err)
		}
		if err != nil {
			return s.explain(adviseNoBackup(err))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s was restored from %s. %s\n", dir, args[0], summary(report.Restored))
		if err == nil && report.Kept != "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"What was there is kept as %s. To go back to it, rename it to memoryd.db.\n", report.Kept)
		}
		if err == nil && report.NoLongerEncrypted {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "The memories that were restored are not encrypted, while those that "+
				"were there are: memoryd encrypt encrypts them.")
		}
		return err
	})
	cmd.Flags().BoolVar(&force, "force", false, "restore over memories that are there, and keep those beside the new ones")
	return cmd
}

// adviseNoBackup says what can be done with a store that was given as a backup.
func adviseNoBackup(err error) error {
	if !errors.Is(err, boltkv.ErrNoBackup) {
		return err
	}
	return fmt.Errorf("%w; memoryd check looks at a store; to go back to one that was kept, rename it to memoryd.db "+
		"while no service runs", err)
}
