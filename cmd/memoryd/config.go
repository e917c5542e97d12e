package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newConfigCommand(lookupEnv lookupEnv, environ environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting in force, and where it comes from",
		Long: `Config prints every setting in force, and where it comes from. Then it checks what the service would check
when it starts, the files about TLS and identity included, so that a mistake is found before a restart or a reload. It
warns of environment variables that begin with MEMORYD_ and belong to no setting. Where the variables of OpenTelemetry
ask for traces or metrics to be exported, it prints that too.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadSettings(cmd.Flags(), lookupEnv)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, key := range s.keys {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", key, s.show(key), s.sources[key])
			}
			asked, askedErr := s.telemetrySettings()
			for _, signal := range []struct {
				name string
				exported
			}{{"otel-traces", asked.traces}, {"otel-metrics", asked.metrics}} {
				if signal.exporter != "" {
					_, _ = fmt.Fprintf(w, "%s\t%s\tenv %s\n", signal.name, signal.exporter, signal.variable)
				}
			}
			if err := w.Flush(); err != nil {
				return fmt.Errorf("print settings: %w", err)
			}
			if err := printUnknown(cmd.ErrOrStderr(), unknownVariables(environ)); err != nil {
				return err
			}
			return errors.Join(s.validate(cmd.Context()), askedErr)
		},
	}
	addSettings(cmd.Flags())
	return cmd
}

// validate checks what the service would check when it starts.
func (s *settings) validate(ctx context.Context) error {
	cfg, err := s.serverConfig()
	if err != nil {
		return err
	}
	if _, err := s.logger(nil); err != nil {
		return err
	}
	return s.explain(cfg.Preflight(ctx))
}
