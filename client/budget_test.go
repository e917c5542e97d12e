package client

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Importing the client costs gRPC, protobuf and what these need, and never the server.
func TestDependencyBudget(t *testing.T) {
	const module = "github.com/seed-7f2870e1/memoryd"
	const maxPackages = 120
	allowed := []string{
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	}
	own := []string{module + "/client", module + "/gen/memoryd/v1"}

	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{if not .Standard}}{{.Module.Path}} {{.ImportPath}}{{end}}", ".")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}

	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > maxPackages {
		t.Errorf("%d packages, want at most %d", len(lines), maxPackages)
	}
	var modules []string
	for _, line := range lines {
		mod, pkg, _ := strings.Cut(line, " ")
		if mod != module {
			modules = append(modules, mod)
		} else if !slices.Contains(own, pkg) {
			t.Errorf("imports %s of this module", pkg)
		}
	}
	slices.Sort(modules)
	if got := slices.Compact(modules); !slices.Equal(got, allowed) {
		t.Errorf("modules %q, want %q", got, allowed)
	}
}
