package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// socketOf opens a socket with a mode, in a directory that makes its path short.
func socketOf(t *testing.T, mode os.FileMode) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "md") //nolint:usetesting // t.TempDir can be longer than a socket's path may be.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return l
}

// remote is a listener with an address that other machines can reach, which a test does not open.
type remote struct {
	net.Listener
	closed bool
}

func (r *remote) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 7711} }

func (r *remote) Close() error {
	r.closed = true
	return nil
}

func TestAddListeners(t *testing.T) {
	private, public := socketOf(t, 0o660), socketOf(t, 0o666)
	dir := t.TempDir()
	must := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	principals := "--principals=" + must("principals.yaml", "principals: []\n")
	tls := []string{"--tls-cert=" + must("c", ""), "--tls-key=" + must("k", "")}
	const others = "other machines can reach it; give --tls-cert, --tls-key and --principals, a loopback address or a path " +
		"in its unit, or allow it with --insecure"

	for _, tt := range []struct {
		name     string
		args     []string
		listener net.Listener
		listen   []string
		err      string
	}{
		{name: "instead of the default", listener: private},
		{name: "besides what was set", args: []string{"--listen=127.0.0.1:1"}, listener: private, listen: []string{"127.0.0.1:1"}},
		{
			name: "already opened", args: []string{"--listen=127.0.0.1:1,unix://" + private.Addr().String()}, listener: private,
			listen: []string{"127.0.0.1:1"},
		},
		{name: "already opened, alone", args: []string{"--listen=unix:" + private.Addr().String()}, listener: private, listen: []string{}},
		{
			name: "open to all users", listener: public, err: "the socket " + public.Addr().String() + " of systemd: " +
				"every user of this machine can connect to it; give --principals, SocketMode=0660 in its unit, or allow it with --insecure",
		},
		{name: "open to all users, with principals", args: []string{principals}, listener: public},
		{name: "open to all users, insecure", args: []string{"--insecure"}, listener: public},
		{name: "open to others", listener: &remote{}, err: "the socket 0.0.0.0:7711 of systemd: " + others},
		{
			name: "open to others, with principals alone", args: []string{principals}, listener: &remote{},
			err: "the socket 0.0.0.0:7711 of systemd: " + others,
		},
		{name: "open to others, with both", args: append([]string{principals}, tls...), listener: &remote{}},
		{name: "open to others, insecure", args: []string{"--insecure"}, listener: &remote{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags := allSettings()
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			s, err := loadSettings(flags, environment(nil))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := s.serverConfig()
			if err != nil {
				t.Fatal(err)
			}
			err = s.addListeners(&cfg, []net.Listener{tt.listener})
			if tt.err != "" {
				var setting *settingError
				if !errors.As(err, &setting) || err.Error() != tt.err {
					t.Errorf("got %v, want a setting error %q", err, tt.err)
				}
				if l, ok := tt.listener.(*remote); ok && !l.closed {
					t.Error("the listener is open still")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.listen, cfg.Listen); diff != "" || len(cfg.Listeners) != 1 {
				t.Errorf("got %d listeners, want 1; (-want +got)\n%s", len(cfg.Listeners), diff)
			}
		})
	}
}

// An address need not be written as systemd has it.
func TestIsAddress(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	unix := &net.UnixAddr{Name: "/run/m.sock", Net: "unix"}
	for _, tt := range []struct {
		addr  net.Addr
		given string
		want  bool
	}{
		{tcp("127.0.0.1", 7711), "127.0.0.1:7711", true},
		{tcp("127.0.0.1", 7711), "localhost:7711", true},
		{tcp("127.0.0.1", 7711), "localhost:07711", true},
		{tcp("127.0.0.1", 7711), "localhost:7712", false},
		{tcp("127.0.0.1", 7711), "127.0.0.2:7711", false},
		{tcp("127.0.0.1", 7711), ":7711", false},
		{tcp("127.0.0.1", 7711), "127.0.0.1:0", false},
		{tcp("127.0.0.1", 7711), "no address", false},
		{tcp("127.0.0.1", 7711), "unix:/run/m.sock", false},
		{tcp("::1", 7711), "[0:0:0:0:0:0:0:1]:7711", true},
		{tcp("::", 7711), ":7711", true},
		{tcp("::", 7711), "[::]:7711", true},
		{tcp("::", 7711), "0.0.0.0:7711", false},
		{tcp("0.0.0.0", 7711), ":7711", false},
		{unix, "unix:/run/m.sock", true},
		{unix, "unix:///run/m.sock", true},
		{unix, "unix:/run/n.sock", false},
		{unix, "127.0.0.1:7711", false},
	} {
		if got := isAddress(tt.addr, tt.given); got != tt.want {
			t.Errorf("%s as %s: got %t, want %t", tt.addr, tt.given, got, tt.want)
		}
	}
}

// Looking at as many sockets as LISTEN_FDS may say would take hours and all memory.
func TestSystemdListeners_TooMany(t *testing.T) {
	for _, fds := range []string{"1025", "2000000000", "99999999999999999999"} {
		t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		t.Setenv("LISTEN_FDS", fds)
		_, err := systemdListeners()
		want := "LISTEN_FDS is " + fds + ": it must be the number of sockets that systemd passes, at most 1024; unset it where " +
			"systemd passes none"
		var setting *settingError
		if !errors.As(err, &setting) || err.Error() != want {
			t.Errorf("got %v, want the setting error %s", err, want)
		}
	}
	for _, tt := range []struct{ pid, fds string }{
		{"1", "2000000000"}, {"", "2000000000"}, {"42", ""}, {"42", "many"}, {"42", "1024"}, {"42", "-1"},
	} {
		env := map[string]string{"LISTEN_PID": tt.pid, "LISTEN_FDS": tt.fds}
		if err := checkListenFDs(func(name string) string { return env[name] }, 42); err != nil {
			t.Errorf("%v: got %v, want no error", env, err)
		}
	}
}

func TestAddListeners_None(t *testing.T) {
	s, err := loadSettings(allSettings(), environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.serverConfig()
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := systemdListeners()
	if err != nil || len(listeners) > 0 {
		t.Fatalf("got %v, %v, want no listeners", listeners, err)
	}
	if err := s.addListeners(&cfg, listeners); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:7711"}, cfg.Listen); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
