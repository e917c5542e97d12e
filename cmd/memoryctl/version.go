package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.print("memoryctl " + version() + "\n")
		},
	}
}

// version says what was built, by what and for what.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s %s %s/%s", buildVersion(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion is the version that was built, and the commit where the build says so. Info may be nil.
func buildVersion(info *debug.BuildInfo) string {
	const devel = "devel"
	if info == nil {
		return devel
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = devel
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " (" + s.Value + ")"
		}
	}
	return version
}
