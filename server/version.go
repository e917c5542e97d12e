package server

import "runtime/debug"

// modulePath is where this package comes from, also when it is part of another program.
const modulePath = "github.com/seed-7f2870e1/memoryd"

// Version returns the version of memoryd that is built in, "devel" where the build does not say.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return develVersion
	}
	return moduleVersion(info)
}

const develVersion = "devel"

func moduleVersion(info *debug.BuildInfo) string {
	modules := append([]*debug.Module{&info.Main}, info.Deps...)
	for _, m := range modules {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return develVersion
}
