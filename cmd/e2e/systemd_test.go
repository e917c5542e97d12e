package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// notifySocket is the end of systemd of what a service says about itself. It returns the path, and what awaits a message.
func notifySocket(t *testing.T) (path string, await func() string) {
	t.Helper()
	path = filepath.Join(socketDir(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func() string {
		t.Helper()
		message := make([]byte, 4096)
		n, err := conn.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
}

// unit is a memoryd that was started as systemd does: with a socket that is open already, and somebody to notify.
type unit struct {
	socket string
	cmd    *exec.Cmd
	log    *bytes.Buffer // complete once it has ended
	await  func() string // the next of its messages
}

func startUnit(t *testing.T, args func(dir, socket string) []string) *unit {
	t.Helper()
	dir := socketDir(t)
	u := &unit{socket: filepath.Join(dir, "memoryd.sock"), log: new(bytes.Buffer)}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: u.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Chmod(u.socket, 0o660); err != nil {
		t.Fatal(err)
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // memoryd has it.
	var notify string
	notify, u.await = notifySocket(t)

	// LISTEN_PID is that of memoryd itself, which a shell knows before it becomes memoryd.
	const script = `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=memoryd.socket exec "$0" "$@"`
	u.cmd = exec.Command("sh", append([]string{"-c", script, binary("memoryd")}, args(dir, u.socket)...)...)
	u.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	u.cmd.Stderr, u.cmd.ExtraFiles = u.log, []*os.File{file}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if u.cmd.ProcessState == nil { // The test has failed.
			_ = u.cmd.Process.Kill()
			_ = u.cmd.Wait()
			t.Logf("%s", u.log)
		}
	})
	return u
}

func (u *unit) want(t *testing.T, want string) {
	t.Helper()
	if got := u.await(); !regexp.MustCompile("^" + want + "$").MatchString(got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (u *unit) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := u.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait awaits that it ends well.
func (u *unit) wait(t *testing.T) {
	t.Helper()
	if err := u.cmd.Wait(); err != nil {
		t.Errorf("memoryd: %v\n%s", err, u.log)
	}
	if _, err := os.Stat(u.socket); err != nil {
		t.Errorf("the socket of systemd is gone: %v", err)
	}
}

// TestSystemd runs memoryd under a systemd that the test plays: a socket that is open before it starts, and the messages
// about what it does.
func TestSystemd(t *testing.T) {
	u := startUnit(t, func(dir, _ string) []string { return []string{"--data", filepath.Join(dir, "data"), "--http", ""} })
	serving := `READY=1\nSTATUS=Serving on ` + u.socket // and on the default address not
	u.want(t, serving)
	client := &daemon{target: "unix://" + u.socket}
	if out, err := exec.Command(binary("memoryd"), "health", "--addr", client.target).CombinedOutput(); err != nil {
		t.Errorf("it is ready, and health says %v\n%s", err, out)
	}
	if out := client.ctl(t, nil, "create", "/memories/a", "text"); out.status != 0 {
		t.Errorf("got %+v", out)
	}

	u.signal(t, syscall.SIGHUP)
	u.want(t, `RELOADING=1\nMONOTONIC_USEC=\d+\nSTATUS=Reloading`)
	u.want(t, serving)

	u.signal(t, syscall.SIGTERM)
	u.want(t, `STOPPING=1\nSTATUS=Stopping`)
	u.wait(t)
}

// TestSystemd_ReloadFails reloads a file that is broken.
func TestSystemd_ReloadFails(t *testing.T) {
	principals := filepath.Join(t.TempDir(), "principals.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(principals, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("principals: []\n")
	u := startUnit(t, func(dir, _ string) []string {
		return []string{"--data", filepath.Join(dir, "data"), "--http", "", "--principals", principals}
	})
	u.want(t, `READY=1\n.*`)
	write("principals: [\n")
	u.signal(t, syscall.SIGHUP)
	u.want(t, `RELOADING=1\n(?s:.*)`)
	u.want(t, `READY=1\nSTATUS=Serving on `+u.socket+`; the last reload failed, see the log`)
	u.signal(t, syscall.SIGTERM)
	u.want(t, `STOPPING=1\n.*`)
	u.wait(t)
}

// TestSystemd_Addresses has addresses in the settings, too, one of which is that of the socket.
func TestSystemd_Addresses(t *testing.T) {
	u := startUnit(t, func(dir, socket string) []string {
		config := filepath.Join(dir, "memoryd.yaml")
		content := "listen: ['unix://" + socket + "', '127.0.0.1:0']\ndata: " + filepath.Join(dir, "data") + "\nhttp: ''\n"
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", config}
	})
	u.want(t, `READY=1\nSTATUS=Serving on `+u.socket+`, 127\.0\.0\.1:\d+`)
	u.signal(t, syscall.SIGTERM)
	u.want(t, `STOPPING=1\n.*`)
	u.wait(t)
}

// TestUnits has systemd check its units.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("THERE IS NO systemd-analyze: the units of deploy/systemd are not checked.")
	}
	dir := t.TempDir()
	for _, name := range []string{"memoryd.service", "memoryd.socket"} {
		unit, err := os.ReadFile(filepath.Join(repository, "deploy", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		// It looks for the program, which is not installed.
		unit = bytes.ReplaceAll(unit, []byte("=/usr/bin/memoryd"), []byte("="+binary("memoryd")))
		if err := os.WriteFile(filepath.Join(dir, name), unit, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.Command("systemd-analyze", "verify", "--man=no", "memoryd.service", "memoryd.socket")
	verify.Dir = dir
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The exposure is 1.4 of 10, in tenths of which this is the most.
	security := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", "memoryd.service")
	security.Dir = dir
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
