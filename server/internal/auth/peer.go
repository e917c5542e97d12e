package auth

import (
	"math"
	"net"
	"syscall"

	"google.golang.org/grpc/credentials"
)

const (
	// noUID is the number that stands for no user.
	noUID = math.MaxUint32
	// overflowUID is what Linux tells of every user that the namespace of this process has no number for.
	overflowUID = 65534
)

// PeerInfo is what the transport credentials of a unix socket know of the other end.
type PeerInfo struct {
	credentials.CommonAuthInfo        // the kernel keeps others out: PrivacyAndIntegrity
	UID                        uint32 // of the process at the other end, as of when it connected
	HasUID                     bool   // false where the system does not tell
}

// AuthType returns "unix".
func (PeerInfo) AuthType() string { return "unix" }

// PeerUID returns the user of the process at the other end of a unix socket, as of when it connected. It is false for
// other connections and where the system does not tell. Wrappers of a connection are looked through if they have a
// method NetConn, as those of crypto/tls do.
//
// It may be 65534, which a policy grants nothing: on Linux it stands for every user that the namespace of this process
// has no number for.
func PeerUID(conn net.Conn) (uint32, bool) {
	if conn == nil || conn.LocalAddr() == nil || conn.LocalAddr().Network() != "unix" {
		return 0, false
	}
	for {
		if c, ok := conn.(syscall.Conn); ok {
			return socketUID(c)
		}
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return 0, false
		}
		conn = c.NetConn()
	}
}

func socketUID(conn syscall.Conn) (uint32, bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var uid uint32
	var peerErr error
	if err := raw.Control(func(fd uintptr) { uid, peerErr = peerUID(int(fd)) }); err != nil || peerErr != nil {
		return 0, false
	}
	return uid, uid != noUID
}
