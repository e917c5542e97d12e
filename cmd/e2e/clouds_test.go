package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClouds runs the tests of the module testdata/clouds: the memory tool with the clients of the SDK for Amazon
// Bedrock and Google Vertex AI.
func TestClouds(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	cmd.Dir = filepath.Join("testdata", "clouds")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}
