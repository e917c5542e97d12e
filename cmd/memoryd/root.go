package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
	"github.com/seed-7f2870e1/memoryd/server"
)

// newRoot returns the command line of memoryd.
func newRoot(lookupEnv lookupEnv, environ environ) *cobra.Command {
	root := &cobra.Command{
		Use:   "memoryd",
		Short: "Memory service for Claude's memory tool",
		Long: `memoryd executes the commands of Claude's memory tool for any number of agents and keeps what they write in a
directory of its own.

Every flag has an environment variable, such as MEMORYD_VIEW_MAX_CHARS for --view-max-chars, and a key in the file that
--config names, such as view-max-chars. A flag wins over the environment, and that over the file.

SIGINT and SIGTERM stop the service, which lets calls go on for --shutdown-timeout; a second one ends it at once, as a
crash does, and loses nothing that was answered.

SIGHUP reads the files about TLS and identity again and opens the audit log anew; such a file that has changed is also
read within 10 seconds without it. One that is broken leaves in force what is, and the log says so. Settings are read
when the service starts.

Traces and metrics are exported as the variables of OpenTelemetry say, such as OTEL_EXPORTER_OTLP_ENDPOINT, and not at
all where none is set.

Under systemd it says when it serves, reloads and stops (Type=notify), and serves on the sockets that its socket unit
opens: in the place of the default of --listen, and besides addresses that are set.`,
		Args:          noArgs,
		Version:       buildinfo.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadSettings(cmd.Flags(), lookupEnv)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), s, unknownVariables(environ), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	addSettings(root.Flags())
	root.AddCommand(
		newConfigCommand(lookupEnv, environ), newCheckCommand(lookupEnv), newVerifyCommand(lookupEnv),
		newRestoreCommand(lookupEnv), newCompactCommand(lookupEnv), newEncryptCommand(lookupEnv),
		newKeysetCommand(lookupEnv), newTokenCommand(), newHealthCommand(lookupEnv), newVersionCommand(),
	)
	completeSettings(root)
	return root
}

// offlineCommand gives a command the offlineSettings as flags, and runs it with their values.
func offlineCommand(
	lookupEnv lookupEnv, cmd *cobra.Command, run func(cmd *cobra.Command, args []string, s *settings) error,
) *cobra.Command {
	addSettings(cmd.Flags(), offlineSettings...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := loadSettings(cmd.Flags(), lookupEnv)
		if err != nil {
			return err
		}
		return run(cmd, args, s)
	}
	return cmd
}

// serve runs the service until ctx is done.
func serve(ctx context.Context, s *settings, unknown []unknownVariable, stdout, stderr io.Writer) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // From here on it ends nothing. Windows has none.
	defer signal.Stop(hangups)
	unqueued, err := s.logger(stderr)
	if err != nil {
		return err
	}
	lines := newLineQueue(stderr, func(n int64) {
		unqueued.WarnContext(ctx, "lines of the log were dropped, since it was not read", "lines", n)
	})
	defer lines.close(flushTimeout)
	logger, err := s.logger(lines)
	if err != nil {
		return err
	}
	logUnknown(ctx, logger, unknown) // at first, since one may be why the rest fails
	cfg, err := s.serverConfig()
	if err != nil {
		return err
	}
	cfg.Stdout, cfg.Logger = stdout, logger
	if !cfg.Pprof {
		runtime.MemProfileRate = 0 // Nobody can read the profile, and its samples cost every call something.
	}
	asked, err := s.telemetrySettings()
	if err != nil {
		return err
	}
	exports, err := startTelemetry(ctx, asked, logger)
	if err != nil {
		return err
	}
	defer exports.stop(ctx)
	exports.configure(&cfg)
	listeners, err := systemdListeners()
	if err != nil {
		return err
	}
	if err := s.addListeners(&cfg, listeners); err != nil {
		return err
	}
	srv, err := server.New(ctx, cfg)
	if err != nil {
		return s.explain(err)
	}
	exports.export(srv.Gatherer())
	ctx, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(ctx, hangups, srv, logger)
	}()
	err = srv.Run(ctx)
	stop()
	<-followed
	return err
}

// oneFile takes the name of one file as the only argument.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%d arguments given, but it is: %s", len(args), cmd.UseLine())}
	}
	return nil
}

// noArgs is cobra.NoArgs as an error in usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return &usageError{err}
	}
	return nil
}
