package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"devel":  nil,
		"v1.2.3": {Main: debug.Module{Version: "v1.2.3"}},
		"devel (abc)": {
			Main:     debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
		},
	} {
		if got := version(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestString(t *testing.T) {
	want := "devel " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	if got := String(); got != want { // a test binary has no version and no commit
		t.Errorf("got %q, want %q", got, want)
	}
}
