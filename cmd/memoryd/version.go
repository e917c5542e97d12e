package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "memoryd %s\n", version())
			return err
		},
	}
}

// version says what was built, by what and for what.
func version() string {
	return fmt.Sprintf("%s%s %s %s/%s", server.Version(), revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// revision is the commit that was built, "" where the build does not say.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " (" + s.Value + ")"
		}
	}
	return ""
}
