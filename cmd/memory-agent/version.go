package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print what was built",
		Example: "  memory-agent version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := fmt.Fprintf(c.stdout, "memory-agent %s\n", version()); err != nil {
				return fmt.Errorf("write standard output: %w", err)
			}
			return nil
		},
	}
}

// version says what was built, by what and for what.
func version() string {
	built, revision := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		built = strings.Trim(info.Main.Version, "()")
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " (" + s.Value + ")"
			}
		}
	}
	return fmt.Sprintf("%s%s %s %s/%s", cmp.Or(built, "devel"), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
