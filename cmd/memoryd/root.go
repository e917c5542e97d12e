package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

// newRoot returns the command line of memoryd.
func newRoot(lookupEnv lookupEnv) *cobra.Command {
	root := &cobra.Command{
		Use:   "memoryd",
		Short: "Memory service for Claude's memory tool",
		Long: `memoryd executes the commands of Claude's memory tool for any number of agents and keeps what they write in a
directory of its own.

Every flag has an environment variable, such as MEMORYD_VIEW_MAX_CHARS for --view-max-chars, and a key in the file that
--config names, such as view-max-chars. A flag wins over the environment, and that over the file.`,
		Args:          noArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadSettings(cmd.Flags(), lookupEnv)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), s, cmd.ErrOrStderr())
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	addSettings(root.PersistentFlags())
	root.Flags().SortFlags = false
	root.AddCommand(newConfigCommand(lookupEnv), newCheckCommand(lookupEnv), newVersionCommand())
	return root
}

// serve runs the service until ctx is done.
func serve(ctx context.Context, s *settings, stderr io.Writer) error {
	cfg, err := s.serverConfig()
	if err != nil {
		return err
	}
	if cfg.Logger, err = s.logger(stderr); err != nil {
		return err
	}
	srv, err := server.New(ctx, cfg)
	if err != nil {
		return s.explain(err)
	}
	return srv.Run(ctx)
}

// noArgs is cobra.NoArgs as an error in usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return &usageError{err}
	}
	return nil
}
