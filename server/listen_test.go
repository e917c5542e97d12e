package server

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// socketPath is a path for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "m.sock")
}

func listenOn(t *testing.T, given string, own ...net.Listener) (net.Listener, error) {
	t.Helper()
	a, err := parseAddress("Listen", given)
	if err != nil {
		t.Fatal(err)
	}
	if a, _, err = a.resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	return listen(t.Context(), a, DefaultSocketMode, own)
}

func closeListener(t *testing.T, l net.Listener) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenUnix(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	for _, mode := range []fs.FileMode{DefaultSocketMode, 0o660, 0o666} {
		a, err := parseAddress("Listen", "unix://"+socketPath(t))
		if err != nil {
			t.Fatal(err)
		}
		l, err := listen(t.Context(), a, mode, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(a.path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := info.Mode(), fs.ModeSocket|mode; got != want {
			t.Errorf("got mode %v, want %v", got, want)
		}
		if got := syscall.Umask(0); got != 0 {
			t.Errorf("the umask was left at %#o", got)
		}
		closeListener(t, l)
		if _, err := os.Lstat(a.path); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
}

func TestListenUnix_Stale(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	closeListener(t, dead)

	l, err := listenOn(t, "unix:"+path)
	if err != nil {
		t.Fatalf("a stale socket was not replaced: %v", err)
	}
	closeListener(t, l)
}

func TestListenUnix_Live(t *testing.T) {
	path := socketPath(t)
	live, err := listenOn(t, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, live)
	_, err = listenOn(t, "unix:"+path)
	if err == nil || !strings.HasSuffix(err.Error(), "the socket is in use by another process") {
		t.Errorf("got %v, want that the socket is in use", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the live socket is gone: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenUnix_File(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := listenOn(t, "unix:"+path)
	if err == nil || !strings.Contains(err.Error(), "there is a file that is not a socket") {
		t.Errorf("got %v, want that the file is no socket", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("the file has changed: %q, %v", data, err)
	}
}

func TestListenUnix_NoDirectory(t *testing.T) {
	dir := filepath.Join(filepath.Dir(socketPath(t)), "none")
	_, err := listenOn(t, "unix:"+filepath.Join(dir, "m.sock"))
	if err == nil || !strings.HasSuffix(err.Error(), "there is no directory "+dir+"; make it first") {
		t.Errorf("got %v, want that there is no directory", err)
	}
}

// An address of one kind is not listened on with the other: package net would take 0.0.0.0 for both.
func TestAddress_Network(t *testing.T) {
	for given, want := range map[string]string{
		"0.0.0.0:1": "tcp4", "127.0.0.1:1": "tcp4", "localhost:1": "tcp4", "[::1]:1": "tcp", "[::]:1": "tcp",
		"[::ffff:192.0.2.1]:1": "tcp4", ":1": "tcp", "unix:m.sock": "unix",
	} {
		a, err := parseAddress("Listen", given)
		if err != nil {
			t.Fatal(err)
		}
		if a, _, err = a.resolve(t.Context()); err != nil || a.network != want {
			t.Errorf("%s: got network %s, %v; want %s", given, a.network, err, want)
		}
	}
	l, err := listenOn(t, "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, l)
	if addr := l.Addr().(*net.TCPAddr); addr.IP.To4() == nil {
		t.Errorf("0.0.0.0 is listened on as %s", addr)
	}
}

// A socket that every user can connect to is warned of like an address that other machines can reach.
func TestResolveAll_SocketForEveryone(t *testing.T) {
	path := socketPath(t)
	for name, tt := range map[string]struct {
		cfg  Config
		want bool
	}{
		"everyone":             {Config{Listen: []string{"unix:" + path}, SocketMode: 0o666}, true},
		"others may not write": {Config{Listen: []string{"unix:" + path}, SocketMode: 0o660}, false},
		"with principals":      {Config{Listen: []string{"unix:" + path}, SocketMode: 0o666, Principals: "p"}, false},
		"side port":            {Config{Listen: []string{"127.0.0.1:1"}, HTTP: "unix:" + path, SocketMode: 0o666}, false},
	} {
		log := &logBuffer{}
		tt.cfg.Insecure, tt.cfg.Logger = true, log.logger()
		if _, err := resolveAll(t.Context(), tt.cfg); err != nil {
			t.Fatal(err)
		}
		const want = "INSECURE: every user of this machine can connect to this address, and nobody is authenticated"
		if got := strings.Contains(log.String(), want); got != tt.want {
			t.Errorf("%s: warned is %t, want %t:\n%s", name, got, tt.want, log)
		}
	}
}

func TestListenTCP_InUse(t *testing.T) {
	l, err := listenOn(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, l)
	_, err = listenOn(t, l.Addr().String())
	want := "listen on " + l.Addr().String() + ": the address is in use by another process, perhaps by another memoryd"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The port may be in use by the server itself, which no look at other processes would show.
func TestListenTCP_InUseByItself(t *testing.T) {
	other, err := listenOn(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, other)
	l, err := listenOn(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", ""} {
		given := net.JoinHostPort(host, port)
		_, err := listenOn(t, given, other, l)
		want := "listen on " + given + ": this memoryd listens on " + l.Addr().String() + " already, for another address that " +
			"was set or for the socket unit of systemd; leave one of them out"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The log and LOCK have one spelling of a socket, that of the documentation, however it was given.
func TestShowAddress(t *testing.T) {
	for given, want := range map[string]string{
		"unix:///run/m.sock": "unix:///run/m.sock", "unix:/run/m.sock": "unix:///run/m.sock", "unix:m.sock": "unix:m.sock",
		"127.0.0.1:7711": "127.0.0.1:7711",
	} {
		if got := showAddress(given); got != want {
			t.Errorf("showAddress(%q): got %q, want %q", given, got, want)
		}
	}
	for addr, want := range map[net.Addr]string{
		&net.UnixAddr{Name: "/run/m.sock", Net: "unix"}:       "unix:///run/m.sock",
		&net.UnixAddr{Name: "m.sock", Net: "unix"}:            "unix:m.sock",
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7_711}: "127.0.0.1:7711",
	} {
		if got := showAddr(addr); got != want {
			t.Errorf("showAddr(%v): got %q, want %q", addr, got, want)
		}
	}
}
