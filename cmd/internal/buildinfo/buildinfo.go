// Package buildinfo says what a program was built from.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// String returns what was built, by what and for what: the version, "devel" where the build does not say, with the
// commit where it does, the version of Go, and the platform.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s %s %s/%s", version(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version and the commit. Info may be nil.
func version(info *debug.BuildInfo) string {
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
