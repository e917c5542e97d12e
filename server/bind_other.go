//go:build !unix

package server

import (
	"context"
	"net"
)

// bindUnix binds a socket. Its permissions are those of the directory it is in.
func bindUnix(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", path)
}
