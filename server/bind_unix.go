//go:build unix

package server

import (
	"context"
	"io/fs"
	"net"
	"sync"
	"syscall"
)

// umaskMu is held while the umask, which the whole process shares, is not its own.
var umaskMu sync.Mutex

// bindUnix binds a socket of a mode. The umask gives it that mode as it is made: a chmod afterwards would leave a
// moment in which others can connect.
func bindUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	umaskMu.Lock()
	defer umaskMu.Unlock()
	defer syscall.Umask(syscall.Umask(int(fs.ModePerm &^ mode)))
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", path)
}
