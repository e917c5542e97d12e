package server

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	own := debug.Module{Path: modulePath, Version: "v1.2.3"}
	tests := []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"own program", debug.BuildInfo{Main: own}, "v1.2.3"},
		{
			"part of another", debug.BuildInfo{
				Main: debug.Module{Path: "example.com/app", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: "a"}, &own},
			}, "v1.2.3",
		},
		{"work tree", debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}}, "devel"},
		{"replaced by a directory", debug.BuildInfo{Deps: []*debug.Module{{
			Path: modulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "../memoryd"},
		}}}, "devel"},
		{"nothing", debug.BuildInfo{}, "devel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := moduleVersion(&tt.info); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
