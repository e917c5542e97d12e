package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// keyset is the keyset that the settings name.
func (s *settings) keyset() server.Keyset {
	return server.Keyset{File: s.values.String(keyEncryptionKeyset), KeyURI: s.values.String(keyEncryptionKeyURI)}
}

func newKeysetCommand(lookupEnv lookupEnv) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyset",
		Short: "Make the keyset that memories are encrypted with, rotate it, and show its status",
		Long: `A keyset is a file with the keys that the service encrypts memories with: --encryption-keyset names it here and
for the service alike. Keep a copy of it where the backups are not: without it nobody can read the memories, and with
it whoever has the memories or a backup can.

What is in files is encrypted, and so is everything else that the service keeps, but for the names of namespaces, the
paths of files, and sizes.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysetNewCommand(lookupEnv), newKeysetRotateCommand(lookupEnv), newKeysetStatusCommand(lookupEnv))
	return cmd
}

// keysetCommand returns a command on the keyset that the settings name.
func keysetCommand(
	lookupEnv lookupEnv, cmd *cobra.Command, run func(cmd *cobra.Command, s *settings, k server.Keyset) error,
) *cobra.Command {
	cmd.Args = noArgs
	return offlineCommand(lookupEnv, cmd, func(cmd *cobra.Command, _ []string, s *settings) error {
		k := s.keyset()
		if k.File == "" {
			return s.invalid(keyEncryptionKeyset, "it must be the file of the keyset")
		}
		return run(cmd, s, k)
	})
}

func newKeysetNewCommand(lookupEnv lookupEnv) *cobra.Command {
	return keysetCommand(lookupEnv, &cobra.Command{
		Use:   "new",
		Short: "Make a keyset in a new file",
		Long: `New makes a keyset with one key in the file that --encryption-keyset names, which only its owner can read. A
file that is there is left as it is.

With --encryption-key-uri the file is encrypted with a key of a key management service, and is of no use without that.
The credentials for the service are those that its own tools take, such as AWS_PROFILE or
GOOGLE_APPLICATION_CREDENTIALS.

A service starts to encrypt with it where it holds nothing yet. For one that holds memories, see "memoryd encrypt".`,
		Example: `  memoryd keyset new --encryption-keyset /etc/memoryd/keyset.json
  memoryd keyset new --encryption-keyset keyset.json --encryption-key-uri aws-kms://arn:aws:kms:eu-central-1:1:key/2`,
	}, func(cmd *cobra.Command, _ *settings, k server.Keyset) error {
		id, err := server.NewKeyset(cmd.Context(), k)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s was made, with key %d. Keep a copy of it where the backups are not.\n",
			k.File, id)
		return err
	})
}

func newKeysetRotateCommand(lookupEnv lookupEnv) *cobra.Command {
	return keysetCommand(lookupEnv, &cobra.Command{
		Use:   "rotate",
		Short: "Add a key to the keyset and make it the one to encrypt with",
		Long: `Rotate adds a key to the keyset and makes it primary. Each namespace has a key of its own, which the primary
key of the keyset encrypts: a service that runs reads the file again by itself, or at once on SIGHUP, and encrypts
those keys anew, while it goes on serving. A service that does not run does it when it starts. Memories that were
written stay as they are, and what is written from then on is encrypted with a new key of the namespace.

The keys that were there stay in the keyset. Backups that were made before need them; when no such backup is kept and
"memoryd keyset status" shows no namespace for a key, nothing needs that key any more.

Copy the new file to where the old one is kept: a service that has written anything with the new one does not start with
the old one any more. A crash leaves the old file or the new one.`,
	}, func(cmd *cobra.Command, _ *settings, k server.Keyset) error {
		id, err := server.RotateKeyset(cmd.Context(), k)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s was rotated: key %d is primary. Keep a copy of the new file.\n",
			k.File, id)
		return err
	})
}

func newKeysetStatusCommand(lookupEnv lookupEnv) *cobra.Command {
	return keysetCommand(lookupEnv, &cobra.Command{
		Use:   "status",
		Short: "Show the keys of the keyset, and what they are needed for",
		Long: `Status shows the ids of the keys in the order in which they were added, and never the keys. Where --data is
given, it also shows how many namespaces need each key, which it can tell while no service runs there. The service's
own state counts as a namespace. Backups may need keys that no namespace does.`,
	}, showKeyset)
}

func showKeyset(cmd *cobra.Command, s *settings, k server.Keyset) error {
	keys, err := server.KeysetKeys(cmd.Context(), k)
	if err != nil {
		return err
	}
	var use map[uint32]int
	var inUse *boltkv.InUseError
	if s.sources[keyData] != "default" {
		use, err = server.KeysetUse(cmd.Context(), s.values.String(keyData))
		if err != nil && !errors.As(err, &inUse) {
			return err
		}
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "KEY\tSTATE")
	if use != nil {
		_, _ = fmt.Fprint(w, "\tNAMESPACES")
	}
	_, _ = fmt.Fprintln(w)
	for _, key := range keys {
		state := "old"
		switch {
		case key.Primary:
			state = "primary"
		case !key.Enabled:
			state = "disabled"
		}
		_, _ = fmt.Fprintf(w, "%d\t%s", key.ID, state)
		if use != nil {
			_, _ = fmt.Fprintf(w, "\t%d", use[key.ID])
		}
		_, _ = fmt.Fprintln(w)
		delete(use, key.ID)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print keys: %w", err)
	}
	if inUse != nil {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "memoryd: how many namespaces need each key cannot be told: %v\n", inUse)
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(use)) {
		return fmt.Errorf("%d namespaces need key %d, which the keyset lacks", use[id], id)
	}
	return nil
}
