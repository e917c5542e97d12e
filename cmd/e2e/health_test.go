package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth asks services of every kind with the command that probes run.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	writeCertificates(t, dir)
	if err := os.WriteFile(file("principals.yaml"), []byte("principals: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	health := func(args ...string) (string, error) {
		out, err := exec.Command(binary("memoryd"), append([]string{"health"}, args...)...).CombinedOutput()
		return string(out), err
	}

	local := start(t)
	want := local.target + " is SERVING\n"
	if out, err := health("--addr", local.target); out != want || err != nil {
		t.Errorf("got %v\n%s\nwant %s", err, out, want)
	}
	local.stop(t)
	if out, err := health("--addr", local.target); exitStatus(err) != 1 || !strings.Contains(out, "cannot be asked") {
		t.Errorf("of a service that has stopped: got %v\n%s\nwant status 1", err, out)
	}

	// A shared service: the probe has neither a token nor a certificate, and finds out by the settings to speak TLS.
	shared := &daemon{data: file("data")}
	t.Cleanup(func() { shared.stop(t) })
	shared.serveArgs(t, []string{
		"--listen", "127.0.0.1:0", "--data", shared.data, "--http", "", "--principals", file("principals.yaml"),
		"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("ca.pem"),
	})
	if out, err := health("--addr", shared.address(t), "--tls-cert", file("server.pem")); err != nil {
		t.Errorf("with TLS: %v\n%s", err, out)
	}
	if out, err := health("--addr", shared.address(t)); exitStatus(err) != 1 {
		t.Errorf("without TLS: got %v\n%s\nwant status 1", err, out)
	}
}

func exitStatus(err error) int {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
