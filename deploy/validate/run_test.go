package validate

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// probe asks the probes of a container, as the kubelet does: it verifies no certificate and has no credential.
func (n *node) probe(t *testing.T, s *service) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for kind, p := range s.container.Probes {
		if len(p.Command) > 0 {
			c := s.container
			c.Env["MEMORYD_LISTEN"] = s.address // Where the manifest gives a port, this is the one that was free.
			if output, ok := n.run(t, c, memorydUser, strings.TrimPrefix(p.Command[0], "/"), p.Command[1:]...); !ok {
				t.Errorf("%s: the %s probe failed: %s", c.Name, kind, output)
			}
			continue
		}
		resp, err := client.Get(strings.ToLower(p.Scheme) + "://" + s.http + p.Path)
		if err != nil {
			t.Fatalf("%s: the %s probe failed: %v", s.container.Name, kind, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: the %s probe got %s", s.container.Name, kind, resp.Status)
		}
	}
}

// memorydOf returns the container of a kustomization that runs memoryd.
func memorydOf(t *testing.T, files Files, dir string) Container {
	t.Helper()
	containers, err := newKubernetes(t).Containers(mustBuild(t, files, dir))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(containers, Container.IsMemoryd)
	if at < 0 {
		t.Fatalf("%s runs no memoryd", dir)
	}
	return containers[at]
}

// TestRun_Shared runs the shared service with all components: its probes, its callers, Prometheus, a backup, and the
// Job that restores it.
func TestRun_Shared(t *testing.T) {
	files, dir := overlay(deployFiles(t))
	container := memorydOf(t, files, dir)
	r := newReader(t)
	n := newNode(t)
	r.mount(t, n, container)

	s := n.serve(t, container)
	n.probe(t, s)
	r.mustCall(t, s, "support.token", "create", "/memories/before.md", "x")
	for _, token := range []string{"", "prometheus.token"} {
		if output, ok := r.call(t, s, token, "view", "/memories"); ok {
			t.Errorf("token %q: a stranger can read: %s", token, output)
		}
	}
	s.wait(t, "made scheduled backup")
	r.mustCall(t, s, "operations.token", "backup", filepath.Join(t.TempDir(), "memories.backup"))
	for _, object := range mustBuild(t, files, dir) {
		if monitor, ok := object.(*monitoringv1.ServiceMonitor); ok {
			endpoint := monitor.Spec.Endpoints[0]
			credentials, ca := endpoint.Authorization.Credentials, endpoint.TLSConfig.CA.ConfigMap
			scrape(t, s, *endpoint.TLSConfig.ServerName, r.objects[Given{"ConfigMap", ca.Name}][ca.Key],
				r.objects[Given{"Secret", credentials.Name}][credentials.Key])
		}
	}
	s.stop(t)
	if trail := s.stdout.String(); !strings.Contains(trail, `"command":"create"`) {
		t.Errorf("standard output has no audit trail: %s", trail)
	}

	// The first backup was of nothing, since one is made at once where there is none.
	backups := n.path(container, container.Env["MEMORYD_BACKUP_DIR"])
	emptyDir(t, backups)
	s = n.serve(t, container)
	backup := filepath.Base(s.wait(t, "made scheduled backup").File)
	r.mustCall(t, s, "support.token", "create", "/memories/after.md", "x")

	const job = "kubernetes/restore/kustomization.yaml"
	files[job] = strings.Replace(files[job], "memoryd-20260102T030405Z.backup", backup, 1)
	restore := memorydOf(t, files, "kubernetes/restore")
	if output, ok := n.run(t, restore, memorydUser, "memoryd", restore.Args...); ok {
		t.Errorf("memories were restored under a memoryd that runs: %s", output)
	}
	s.stop(t)
	n.own(t, backups, 0o550|os.ModeSetgid) // The Job has it read-only.
	output := n.mustRun(t, restore, memorydUser, "memoryd", restore.Args...)
	n.own(t, backups, 0o770|os.ModeSetgid)
	if !strings.Contains(output, "was restored") {
		t.Errorf("the Job says %q", output)
	}

	s = n.serve(t, container)
	r.mustCall(t, s, "support.token", "view", "/memories/before.md")
	if output, ok := r.call(t, s, "support.token", "view", "/memories/after.md"); ok {
		t.Errorf("what was written after the backup is still there: %s", output)
	}
}

func emptyDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%s is empty: %v", dir, err)
	}
	for _, entry := range entries {
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRun_Base runs the base alone.
func TestRun_Base(t *testing.T) {
	container := memorydOf(t, deployFiles(t), "kubernetes/base")
	r := newReader(t)
	n := newNode(t)
	r.mount(t, n, container)
	s := n.serve(t, container)
	n.probe(t, s)
	r.mustCall(t, s, "support.token", "create", "/memories/a.md", "x")
}

// runSidecar runs a memoryd, and an agent that shares its socket. The agent is another user of the same group.
func runSidecar(t *testing.T, memoryd, agent Container) {
	t.Helper()
	n := newNode(t)
	for _, m := range memoryd.Mounts {
		n.addEmpty(t, m.Volume)
	}
	s := n.serve(t, memoryd)
	n.probe(t, s)
	const agentUser = 1000
	output := n.mustRun(t, agent, agentUser, "memoryctl", "create", "/memories/a.md", "x")
	if !strings.Contains(output, "File created successfully") {
		t.Errorf("the agent got %q", output)
	}
	s.stop(t)
	n.serve(t, memoryd) // as after a restart of the container
	n.mustRun(t, agent, agentUser, "memoryctl", "view", "/memories/a.md")
}

// TestRun_Sidecar runs the memoryd of the sidecar.
func TestRun_Sidecar(t *testing.T) {
	containers, err := newKubernetes(t).Containers(mustBuild(t, deployFiles(t), "kubernetes/sidecar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(containers) != 2 || !containers[0].IsMemoryd() {
		t.Fatalf("got %+v, want memoryd before the agent", containers)
	}
	runSidecar(t, containers[0], containers[1])
}

// TestRun_Compose runs what the compose file has: the shared service with Prometheus, and the sidecar.
func TestRun_Compose(t *testing.T) {
	files := deployFiles(t)
	containers, err := Compose(t.Context(), files, settings(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("sidecar", func(t *testing.T) { runSidecar(t, containers["memoryd-sidecar"], containers["agent"]) })
	t.Run("shared", func(t *testing.T) {
		container := containers["memoryd"]
		r := newReader(t)
		n := newNode(t)
		for _, m := range container.Mounts {
			if m.Durable {
				n.addEmpty(t, m.Volume)
				continue
			}
			dir := n.addEmpty(t, m.Volume)
			for _, name := range []string{"tls.crt", "tls.key", "principals.yaml"} {
				if err := os.WriteFile(filepath.Join(dir, name), r.read(t, name), 0o400); err != nil {
					t.Fatal(err)
				}
				n.own(t, filepath.Join(dir, name), 0o440)
			}
		}
		s := n.serve(t, container)
		n.probe(t, s)
		r.mustCall(t, s, "support.token", "create", "/memories/a.md", "x")

		config := readPrometheus(t, files, containers["prometheus"])
		secret := func(name string) []byte { return r.read(t, filepath.Base(name)) }
		host, port, _ := strings.Cut(config.StaticConfigs[0].Targets[0], ":")
		if got := ":" + port; got != containers["memoryd"].Env["MEMORYD_HTTP"] {
			t.Errorf("Prometheus asks at %s", got)
		}
		token := strings.TrimSpace(string(secret(config.Authorization.CredentialsFile))) // as Prometheus does with files
		scrape(t, s, host, secret(config.TLSConfig.CAFile), []byte(token))
	})
}
