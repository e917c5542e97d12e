package auth

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// wrapped is a connection that can be looked through.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// opaque is one that cannot.
type opaque struct{ net.Conn }

// accept returns what a listener accepts when somebody connects to it.
func accept(t *testing.T, network, address string) net.Conn {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial(network, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestPeerUID(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the system does not tell")
	}
	conn := accept(t, "unix", filepath.Join(t.TempDir(), "s"))
	for name, conn := range map[string]net.Conn{
		"plain": conn, "wrapped": wrapped{wrapped{conn}}, "TLS": tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12}),
	} {
		if uid, ok := PeerUID(conn); !ok || int(uid) != os.Getuid() {
			t.Errorf("%s: got %d, %t, want %d", name, uid, ok, os.Getuid())
		}
	}
}

func TestPeerUID_NotKnown(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	unix := accept(t, "unix", filepath.Join(t.TempDir(), "s"))
	closed := accept(t, "unix", filepath.Join(t.TempDir(), "s"))
	_ = closed.Close()
	for name, conn := range map[string]net.Conn{
		"nil": nil, "pipe": a, "opaque": opaque{unix}, "closed": closed, "TCP": accept(t, "tcp", "127.0.0.1:0"),
	} {
		if uid, ok := PeerUID(conn); ok {
			t.Errorf("%s: got %d", name, uid)
		}
	}
}

func TestPeerInfo_AuthType(t *testing.T) {
	if got := (PeerInfo{}).AuthType(); got != "unix" {
		t.Errorf("got %q", got)
	}
}
