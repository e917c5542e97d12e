// Package e2e tests memoryd, memoryctl and memory-agent as they are built and as users run them.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client"
)

// bin is the directory of the built binaries.
var bin string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "memoryd-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator),
		"../memoryd", "../memoryctl", "../memory-agent")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	bin = dir
	return m.Run()
}

// binary is the path of a built binary.
func binary(name string) string { return filepath.Join(bin, name) }

// daemon is a running memoryd.
type daemon struct {
	data   string
	target string // what clients dial
	cmd    *exec.Cmd
	log    *bytes.Buffer // complete once done is closed
	ready  string        // the line of the log that says where it serves
	done   chan struct{}
	err    error    // of the process, once done is closed
	binary string   // "" is the one that is built as usual
	dir    string   // where it runs; "" is that of the test
	env    []string // besides that of the test
}

// socketDir returns a directory with a path that is short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "md") //nolint:usetesting // t.TempDir can be longer than a socket's path may be.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs memoryd on a unix socket until the test ends, when its store must be consistent.
func start(t *testing.T, args ...string) *daemon {
	t.Helper()
	dir := socketDir(t)
	d := &daemon{data: filepath.Join(dir, "data"), target: "unix://" + filepath.Join(dir, "memoryd.sock")}
	t.Cleanup(func() {
		d.stop(t)
		if out, err := exec.Command(binary("memoryd"), "check", "--data", d.data).CombinedOutput(); err != nil {
			t.Errorf("memoryd check: %v\n%s", err, out)
		}
	})
	d.serve(t, args...)
	return d
}

// serve starts the process and returns once it serves.
func (d *daemon) serve(t *testing.T, args ...string) {
	t.Helper()
	d.serveArgs(t, append([]string{"--listen", d.target, "--data", d.data, "--http", ""}, args...))
}

// serveArgs starts the process with these arguments alone.
func (d *daemon) serveArgs(t *testing.T, args []string) {
	t.Helper()
	if d.binary == "" {
		d.binary = binary("memoryd")
	}
	d.cmd = exec.Command(d.binary, args...)
	d.cmd.Env, d.cmd.Dir = append(os.Environ(), d.env...), d.dir
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.log, d.done = new(bytes.Buffer), make(chan struct{})
	serving := make(chan struct{})
	go func() {
		defer close(d.done)
		lines := bufio.NewReader(stderr)
		for told := false; ; {
			line, err := lines.ReadString('\n')
			d.log.WriteString(line)
			if !told && strings.Contains(line, "msg=serving") {
				told, d.ready = true, line
				close(serving)
			}
			if err != nil {
				break
			}
		}
		d.err = d.cmd.Wait()
	}()
	select {
	case <-serving:
	case <-d.done:
		t.Fatalf("memoryd ended: %v\n%s", d.err, d.log)
	}
}

// address returns where the first listener is, which may have been given port 0.
func (d *daemon) address(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`addresses="?\[([^] ]+)`).FindStringSubmatch(d.ready)
	if match == nil {
		t.Fatalf("no address in %q", d.ready)
	}
	return match[1]
}

// stop ends the process as a service manager does; it must end well.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if d.cmd == nil {
		return
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stop memoryd: %v", err)
	}
	<-d.done
	if d.err != nil {
		t.Errorf("memoryd: %v\n%s", d.err, d.log)
	}
	d.cmd = nil
}

// kill ends the process at once.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		t.Errorf("kill memoryd: %v", err)
	}
	<-d.done
	d.cmd = nil
}

// dial returns a client.
func (d *daemon) dial(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(d.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// output is what a command gave.
type output struct {
	stdout, stderr string
	status         int
}

// ctl runs memoryctl.
func (d *daemon) ctl(t *testing.T, stdin io.Reader, args ...string) output {
	t.Helper()
	out, err := d.tryCtl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (d *daemon) tryCtl(ctx context.Context, stdin io.Reader, args ...string) (output, error) {
	cmd := exec.CommandContext(ctx, binary("memoryctl"), args...)
	cmd.Env = append(os.Environ(), "MEMORYCTL_ADDR="+d.target)
	cmd.Stdin = stdin
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = nil
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}, err
}
