package validate

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reader is what the reader of docs/kubernetes.md has made: certificates, tokens, and the file of the principals.
type reader struct {
	dir string
	// objects are the Secrets and ConfigMaps that the page makes of them, with their contents by their keys.
	objects map[Given]map[string][]byte
}

// newReader runs the commands of docs/kubernetes.md that need no cluster.
func newReader(t *testing.T) reader {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("OPENSSL IS NOT INSTALLED, SO THAT MEMORYD IS NOT RUN AS THE MANIFESTS SAY")
	}
	r := reader{dir: t.TempDir(), objects: map[Given]map[string][]byte{}}
	for _, block := range Blocks(page(t), "console") {
		for _, command := range Commands(block) {
			cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", command)
			cmd.Dir = r.dir
			cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	for given, files := range GivenBy(page(t)) {
		r.objects[given] = map[string][]byte{}
		for key, file := range files {
			r.objects[given][key] = r.read(t, file)
		}
	}
	return r
}

// read returns what is in a file that the page makes.
func (r reader) read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// mount makes the volumes of a container that are not there yet, with the Secrets of the page in them.
func (r reader) mount(t *testing.T, n *node, c Container) {
	t.Helper()
	for _, m := range c.Mounts {
		switch {
		case n.volumes[m.Volume] != "":
		case m.Files == nil:
			n.addEmpty(t, m.Volume)
		default:
			n.addFiles(t, m.Volume, r.holding(m.Files))
		}
	}
}

// holding returns the contents of the Secret or ConfigMap that has these keys.
func (r reader) holding(keys []string) map[string][]byte {
	for _, content := range r.objects {
		if slices.Equal(slices.Sorted(maps.Keys(content)), keys) {
			return content
		}
	}
	return nil
}

// call runs memoryctl as an operator or an agent does that has a token of the page; "" is none.
func (r reader) call(t *testing.T, s *service, token string, args ...string) (output string, ok bool) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "memoryctl"), args...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"MEMORYCTL_ADDR=" + s.address, "MEMORYCTL_TLS_SERVER_NAME=memoryd", "MEMORYCTL_TLS_CA=ca.crt",
		"MEMORYCTL_NAMESPACE=acme/support/user-1",
	}
	if token != "" {
		cmd.Env = append(cmd.Env, "MEMORYCTL_TOKEN_FILE="+token)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// mustCall is call of what must succeed.
func (r reader) mustCall(t *testing.T, s *service, token string, args ...string) {
	t.Helper()
	if output, ok := r.call(t, s, token, args...); !ok {
		t.Fatalf("memoryctl %s: %s", strings.Join(args, " "), output)
	}
}
