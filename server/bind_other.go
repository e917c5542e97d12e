//go:build !unix

package server

import (
	"context"
	"io/fs"
	"net"
)

// bindUnix binds a socket. Its permissions are those of the directory it is in.
func bindUnix(ctx context.Context, path string, _ fs.FileMode) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", path)
}
