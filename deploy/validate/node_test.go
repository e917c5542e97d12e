package validate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The user and the group that memoryd has in the manifests.
const memorydUser = 65532

// patience is how long the tests wait for what memoryd does at once.
const patience = 30 * time.Second

// node runs containers as the kubelet or Docker would, as far as memoryd can tell: with their arguments, environment and
// volumes. Volumes are directories, and paths in the containers are replaced by paths of those.
type node struct {
	dir     string
	volumes map[string]string // their directories
	asRoot  bool              // and so other users' processes can be started
}

// newNode returns a node without volumes.
func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "memoryd-node-") //nolint:usetesting // Other users cannot enter t.TempDir.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := &node{dir: dir, volumes: map[string]string{}, asRoot: os.Getuid() == 0}
	if !n.asRoot {
		t.Log("THESE TESTS DO NOT RUN AS ROOT, SO THAT MEMORYD RUNS AS THIS USER AND NOT AS THAT OF THE MANIFESTS")
	}
	return n
}

// addEmpty adds an empty volume, as one that the kubelet gives to a pod with an fsGroup.
func (n *node) addEmpty(t *testing.T, volume string) string {
	t.Helper()
	dir := filepath.Join(n.dir, fmt.Sprint("volume-", len(n.volumes)))
	if err := os.Mkdir(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	n.own(t, dir, 0o770|os.ModeSetgid)
	n.volumes[volume] = dir
	return dir
}

// addFiles adds a volume of a Secret or ConfigMap, as the kubelet lays it out: what is there are links into a directory
// that is replaced as a whole.
func (n *node) addFiles(t *testing.T, volume string, files map[string][]byte) {
	t.Helper()
	dir := n.addEmpty(t, volume)
	const version = "..2026_01_02_03_04_05.1234567890"
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(version, "..data")
	for name, content := range files {
		file := filepath.Join(dir, version, name)
		if err := os.WriteFile(file, content, 0o400); err != nil {
			t.Fatal(err)
		}
		n.own(t, file, 0o440)
		link(filepath.Join("..data", name), name)
	}
}

// own gives a file to root and the group of memoryd, where that can be done.
func (n *node) own(t *testing.T, file string, mode os.FileMode) {
	t.Helper()
	if n.asRoot {
		if err := os.Chown(file, 0, memorydUser); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

// path returns the path on the node of what a container finds at a path, "" where no volume is mounted.
func (n *node) path(c Container, name string) string {
	m, ok := c.mountOf(name)
	dir, there := n.volumes[m.Volume]
	if !ok || !there {
		return ""
	}
	return dir + strings.TrimPrefix(name, m.Path)
}

// text returns a value of a setting, or an argument, with the paths of the node where it is in a volume.
func (n *node) text(c Container, value string) string {
	path := strings.TrimPrefix(value, "unix://")
	if !strings.HasPrefix(path, "/") || n.path(c, path) == "" {
		return value
	}
	return strings.TrimSuffix(value, path) + n.path(c, path)
}

// command returns a program with the environment of a container, and nothing besides. In its place there is nothing
// that it could write, nor a directory for temporary files.
func (n *node) command(c Container, user uint32, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(programs, program))
	cmd.Dir = "/"
	cmd.Env = []string{"TMPDIR=/nonexistent"}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+n.text(c, value))
	}
	for _, arg := range args {
		cmd.Args = append(cmd.Args, n.text(c, arg))
	}
	if n.asRoot {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{memorydUser}},
		}
	}
	return cmd
}

// run runs a program to its end.
func (n *node) run(t *testing.T, c Container, user uint32, program string, args ...string) (output string, ok bool) {
	t.Helper()
	cmd := n.command(c, user, program, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return string(out), err == nil
}

// mustRun is run of what must succeed.
func (n *node) mustRun(t *testing.T, c Container, user uint32, program string, args ...string) string {
	t.Helper()
	output, ok := n.run(t, c, user, program, args...)
	if !ok {
		t.Fatalf("%s %s failed:\n%s", program, strings.Join(args, " "), output)
	}
	return output
}

// service is a memoryd that runs.
type service struct {
	container Container
	cmd       *exec.Cmd
	stdout    bytes.Buffer
	address   string // of calls, as memoryctl takes it
	http      string // of the side port, "" for none

	mu     sync.Mutex
	log    []logLine
	logged chan struct{} // has one for each line
	ended  chan error
}

// logLine is a line of the log, in JSON.
type logLine struct {
	Level, Msg, HTTP, File string
	Addresses              []string

	text string
}

// preflight asks memoryd whether it takes the settings of a container, with the addresses that it has there.
func (n *node) preflight(t *testing.T, c Container) error {
	t.Helper()
	if output, ok := n.run(t, c, memorydUser, "memoryd", "config"); !ok || strings.Contains(output, "no effect") {
		return fmt.Errorf("%s: memoryd does not take the settings:\n%s", c.Name, output)
	}
	return nil
}

// serve runs the memoryd of a container until the test ends, on ports of loopback that are free.
func (n *node) serve(t *testing.T, c Container) *service {
	t.Helper()
	if err := n.preflight(t, c); err != nil {
		t.Fatal(err)
	}
	c.Env = maps.Clone(c.Env)
	for _, name := range []string{"MEMORYD_LISTEN", "MEMORYD_HTTP"} {
		if strings.HasPrefix(c.Env[name], ":") {
			c.Env[name] = "127.0.0.1:0"
		}
	}
	s := &service{container: c, logged: make(chan struct{}, 1000), ended: make(chan error, 1)}
	s.cmd = n.command(c, memorydUser, "memoryd", c.Args...)
	s.cmd.Stdout = &s.stdout
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.follow(log)
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() { s.stop(t) })
	line := s.wait(t, "serving")
	s.address, s.http = line.Addresses[0], line.HTTP
	if strings.HasPrefix(s.address, "/") {
		s.address = "unix://" + s.address
	}
	return s
}

func (s *service) follow(log io.Reader) {
	defer close(s.logged)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		line := logLine{text: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			line.Level = "ERROR" // The manifests ask for JSON.
		}
		s.mu.Lock()
		s.log = append(s.log, line)
		s.mu.Unlock()
		s.logged <- struct{}{}
	}
}

// wait waits for a line of the log.
func (s *service) wait(t *testing.T, msg string) logLine {
	t.Helper()
	timeout := time.After(patience)
	for {
		if line, ok := s.said(msg); ok {
			return line
		}
		select {
		case _, ok := <-s.logged:
			if !ok {
				t.Fatalf("%s: memoryd ended before it said %q:\n%s", s.container.Name, msg, s.text())
			}
		case <-timeout:
			t.Fatalf("%s: memoryd has not said %q:\n%s", s.container.Name, msg, s.text())
		}
	}
}

// said returns a line of the log so far.
func (s *service) said(msg string) (line logLine, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.log, func(line logLine) bool { return line.Msg == msg })
	if at < 0 {
		return logLine{}, false
	}
	return s.log[at], true
}

func (s *service) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, line := range s.log {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

// stop ends memoryd as the kubelet does, and checks that it went well, in the time that the container has.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("%s: memoryd ended with %v:\n%s", s.container.Name, err, s.text())
		}
	case <-time.After(s.container.Grace):
		_ = s.cmd.Process.Kill()
		t.Errorf("%s: memoryd did not end in %s:\n%s", s.container.Name, s.container.Grace, s.text())
	}
	s.cmd = nil
	for _, line := range s.log {
		if slices.Contains([]string{"WARN", "ERROR"}, line.Level) && !strings.HasPrefix(line.Msg, "the store is empty") {
			t.Errorf("%s: memoryd is not content: %s", s.container.Name, line.text)
		}
	}
}
