package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newToken makes a token with the binary, and returns it with the entry for the file of principals.
func newToken(t *testing.T, args ...string) (token, entry string) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.Command(binary("memoryd"), append([]string{"token", "new"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("memoryd token new: %v\n%s", err, &stderr)
	}
	return strings.TrimSpace(stdout.String()), stderr.String()
}

// TestShared runs a service for several teams as its operators do: TLS, tokens, a client certificate, rights, the audit
// trail, and a change of who may call while it runs.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeCertificates(t, dir)
	token, entry := newToken(t, "support", "--namespaces", "acme/support/**", "--rights", "read,write")
	write("support.token", token+"\n")
	billing := `
  - name: billing
    certificates: ["spiffe://acme/billing"]
    grants:
      - {namespaces: [acme/billing], rights: [write]}
`
	write("principals.yaml", "principals:\n"+entry+billing)
	if strings.Contains(entry, token) {
		t.Fatal("the entry has the token itself")
	}

	d := &daemon{data: file("data")}
	t.Cleanup(func() { d.stop(t) })
	d.serveArgs(t, []string{
		"--listen", "127.0.0.1:0", "--data", d.data, "--http", "", "--principals", file("principals.yaml"),
		"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("ca.pem"),
		"--audit-log", file("audit.jsonl"),
	})
	d.target = d.address(t)
	support := []string{"--tls-ca", file("ca.pem"), "--token-file", file("support.token")}
	certificate := []string{"--tls-ca", file("ca.pem"), "--tls-cert", file("client.pem"), "--tls-key", file("client.key")}
	run := func(credentials []string, args ...string) output {
		return d.ctl(t, nil, slices.Concat(credentials, args)...)
	}
	want := func(got output, status int, text string) {
		t.Helper()
		if got.status != status || !strings.Contains(got.stdout+got.stderr, text) {
			t.Errorf("got %+v, want status %d and %q", got, status, text)
		}
	}

	want(run(support, "-n", "acme/support/user-1", "create", "/memories/a.md", "a"), 0, "File created successfully")
	want(run(certificate, "-n", "acme/billing", "create", "/memories/b.md", "b"), 0, "File created successfully")
	want(run(support, "-n", "acme/billing", "view", "/memories/b.md"), 4, "NOT_PERMITTED")
	want(run(support, "-n", "acme/billing-of-nobody", "view", "/memories/b.md"), 4, "NOT_PERMITTED")
	want(run(certificate, "-n", "acme/support/user-1", "view", "/memories/a.md"), 4, "NOT_PERMITTED")
	want(run(support, "namespace", "list", "-o", "json"), 0, "acme/support/user-1")
	if got := run(support, "namespace", "list"); strings.Contains(got.stdout, "billing") {
		t.Errorf("the list shows the namespace of others: %s", got.stdout)
	}
	want(run([]string{"--tls-ca", file("ca.pem")}, "-n", "acme/billing", "view", "/memories"), 4, "UNAUTHENTICATED")
	want(run(nil, "-n", "acme/billing", "view", "/memories"), 3, "TLS")
	tool := d.ctl(t, strings.NewReader(`{"command":"view","path":"/memories"}`+"\n"),
		slices.Concat(support, []string{"tool", "-n", "acme/billing"})...)
	want(tool, 0, `"Error: Access to this memory is not permitted"`)

	// Another token, and the certificate is nobody's any more: at SIGHUP, without a restart.
	second, entry := newToken(t, "support", "--namespaces", "acme/support/**", "--rights", "read")
	write("principals.yaml", "principals:\n"+entry)
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	write("second.token", second)
	reader := []string{"--tls-ca", file("ca.pem"), "--token-file", file("second.token")}
	deadline := time.Now().Add(20 * time.Second)
	for run(reader, "-n", "acme/support/user-1", "view", "/memories/a.md").status != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the new token was not taken")
		}
	}
	want(run(support, "-n", "acme/support/user-1", "view", "/memories/a.md"), 4, "UNAUTHENTICATED")
	want(run(certificate, "-n", "acme/billing", "view", "/memories/b.md"), 4, "UNAUTHENTICATED")
	want(run(reader, "-n", "acme/support/user-1", "rm", "/memories/a.md"), 4, "NAMESPACE_READ_ONLY")
	tool = d.ctl(t, strings.NewReader(`{"command":"delete","path":"/memories/a.md"}`+"\n"),
		slices.Concat(reader, []string{"tool", "-n", "acme/support/user-1"})...)
	want(tool, 0, `"Error: This memory is read-only"`)

	// A broken file keeps what was there.
	write("principals.yaml", "principals: [")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	want(run(reader, "-n", "acme/support/user-1", "view", "/memories/a.md"), 0, "a")

	d.stop(t)
	if log := d.log.String(); !strings.Contains(log, "level=ERROR") || strings.Contains(log, token) ||
		strings.Contains(log, second) {
		t.Errorf("the log does not tell of the broken file, or has a token:\n%s", log)
	}
	trail, err := os.ReadFile(file("audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for line := range strings.Lines(string(trail)) {
		var event struct{ Principal, Namespace, Command, Path, Outcome string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		outcomes = append(outcomes, fmt.Sprint(event))
	}
	for _, event := range []string{
		"{support acme/support/user-1 create /memories/a.md ok}", "{billing acme/billing create /memories/b.md ok}",
		"{support acme/billing  /memories/b.md PERMISSION_DENIED}", "{    UNAUTHENTICATED}",
		"{support acme/support/user-1 delete /memories/a.md PERMISSION_DENIED}",
	} {
		if !slices.Contains(outcomes, event) {
			t.Errorf("the audit trail lacks %s:\n%s", event, trail)
		}
	}
}

// TestShared_RefusesToBeOpen tests that nothing but --insecure opens a port to strangers.
func TestShared_RefusesToBeOpen(t *testing.T) {
	dir := t.TempDir()
	writeCertificates(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("principals.yaml"), []byte("principals: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secure := []string{"--tls-cert", file("server.pem"), "--tls-key", file("server.key")}
	known := []string{"--principals", file("principals.yaml")}
	for name, args := range map[string][]string{"neither": nil, "TLS alone": secure, "principals alone": known} {
		args = slices.Concat([]string{"--listen", "0.0.0.0:0", "--data", file("data"), "--http", ""}, args)
		out, err := exec.Command(binary("memoryd"), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--insecure") {
			t.Errorf("%s: got %v\n%s\nwant a refusal that names --insecure", name, err, out)
		}
		if _, err := os.Stat(file("data")); err == nil {
			t.Errorf("%s: the data directory was made", name)
		}
	}
}
