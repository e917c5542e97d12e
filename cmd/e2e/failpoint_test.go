package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/gofail/code"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const bbolt = "go.etcd.io/bbolt"

// buildFailing builds a memoryd in which the failpoints of bbolt are active: with a changed copy of bbolt in the place
// of the one that go.mod names.
func buildFailing(t *testing.T) (binary string) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("go", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "bbolt")
	if err := os.CopyFS(changed, os.DirFS(run("list", "-f", "{{.Dir}}", bbolt))); err != nil {
		t.Fatal(err)
	}
	var failpoints []*code.Failpoint
	for _, name := range []string{"bucket.go", "db.go", "tx.go"} {
		path := filepath.Join(changed, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		found, err := code.ToFailpoints(&out, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		failpoints = append(failpoints, found...)
		writeFile(t, path, out.Bytes())
	}
	var binding bytes.Buffer
	if err := code.NewBinding("bbolt", failpoints).Write(&binding); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(changed, "failpoints.go"), binding.Bytes())

	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			content = fmt.Appendf(content, "\nreplace %s => %s\n", bbolt, changed)
		}
		writeFile(t, filepath.Join(dir, name), content)
	}
	binary = filepath.Join(dir, "memoryd")
	run("build", "-modfile", filepath.Join(dir, "go.mod"), "-o", binary, "../memoryd")
	return binary
}

// writeFile writes a file, also one that was copied without the right to.
func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	_ = os.Chmod(path, 0o600) // where it exists
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// freeAddress returns an address of loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// failpointReached waits until a process has come to a failpoint more than n times.
func failpointReached(t *testing.T, address, name string, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		resp, err := http.Get("http://" + address + "/" + name + "/count")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var count int
		if _, scanErr := fmt.Sscan(string(body), &count); err != nil || scanErr != nil {
			t.Fatalf("count of %s: %q %v %v", name, body, err, scanErr)
		}
		if count > n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
}

// TestKillAtFailpoints ends memoryd with SIGKILL at named places of a commit, while its clients go on.
func TestKillAtFailpoints(t *testing.T) {
	failing := buildFailing(t)
	d := start(t)
	ws := startWriters(t, d, 6)
	for _, failpoint := range []string{
		"beforeBucketPut", "beforeSyncDataPages", "beforeWriteMetaError", "beforeSyncMetaPage", "resizeFileError",
	} {
		const after = 3 // commits or so that pass the place before
		ws.await(10)
		d.stop(t) // the clients wait for the next one
		address := freeAddress(t)
		d.binary, d.env = failing, []string{
			"GOFAIL_HTTP=" + address,
			fmt.Sprintf("GOFAIL_FAILPOINTS=%s=%d*off->sleep(600000)", failpoint, after),
		}
		d.serve(t)
		reached := make(chan struct{})
		go func() {
			defer close(reached)
			failpointReached(t, address, failpoint, after)
		}()
		for waiting := true; waiting; {
			select {
			case <-ws.reached:
			case <-reached:
				waiting = false
			}
		}
		d.kill(t)
		d.binary, d.env = "", nil
		d.serve(t)
	}
	ws.await(30)
	ws.finish(t)
}

// TestFailedCommit lets the disk refuse the page that commits: nothing was changed, the service reads on and takes no
// more writes until it is started again.
func TestFailedCommit(t *testing.T) {
	d := start(t)
	c := d.dial(t)
	create := func(path string) (*memoryv1.CreateResponse, error) {
		return c.Create(t.Context(), &memoryv1.CreateRequest{Path: path, FileText: "x"})
	}
	if _, err := create("/memories/before"); err != nil {
		t.Fatal(err)
	}
	d.stop(t)
	d.binary, d.env = buildFailing(t), []string{
		// The first commit is the service's own: that it has started.
		`GOFAIL_FAILPOINTS=beforeWriteMetaError=2*off->return("input/output error")`,
	}
	d.serve(t)
	if _, err := create("/memories/fine"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := create("/memories/refused"); err == nil || !strings.Contains(err.Error(), "the store is read-only") {
			t.Errorf("a write that the disk refuses: %v", err)
		}
	}
	text := handle(t, c.Handler(""), map[string]any{"command": "view", "path": "/memories"})
	if !strings.Contains(text, "/memories/fine") || strings.Contains(text, "refused") {
		t.Errorf("view: %s", text)
	}
	d.stop(t)
	d.binary, d.env = "", nil
	d.serve(t)
	if _, err := create("/memories/refused"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}
