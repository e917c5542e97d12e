package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newConfigCommand(lookupEnv lookupEnv) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print every setting in force, and where it comes from",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadSettings(cmd.Flags(), lookupEnv)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, key := range s.keys {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", key, s.show(key), s.sources[key])
			}
			if err := w.Flush(); err != nil {
				return fmt.Errorf("print settings: %w", err)
			}
			return s.validate()
		},
	}
}

// validate checks what the service would check when it starts.
func (s *settings) validate() error {
	if _, err := s.serverConfig(); err != nil {
		return err
	}
	_, err := s.logger(nil)
	return err
}
