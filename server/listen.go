package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// probeTimeout is how long the process behind a socket may take to accept a connection.
const probeTimeout = time.Second

// listen opens a resolved address. A socket gets a mode. own are the listeners that the server has already.
func listen(ctx context.Context, a address, mode fs.FileMode, own []net.Listener) (net.Listener, error) {
	if a.network == "unix" {
		return listenUnix(ctx, a, mode)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, a.network, net.JoinHostPort(a.host, a.port))
	if errors.Is(err, syscall.EADDRINUSE) {
		if i := slices.IndexFunc(own, a.overlaps); i >= 0 {
			return nil, fmt.Errorf("listen on %s: this memoryd listens on %s already, for another address that was set or "+
				"for the socket unit of systemd; leave one of them out", a.given, own[i].Addr())
		}
		return nil, fmt.Errorf("listen on %s: the address is in use by another process, perhaps by another memoryd", a.given)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.given, err)
	}
	return listener, nil
}

// listenUnix opens a socket that those can connect to whom the mode lets write. It replaces the socket of a process
// that is gone, and nothing else.
func listenUnix(ctx context.Context, a address, mode fs.FileMode) (net.Listener, error) {
	if dir := filepath.Dir(a.path); !isDir(dir) {
		return nil, fmt.Errorf("listen on %s: there is no directory %s; make it first", a.given, dir)
	}
	if err := removeStaleSocket(ctx, a.path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.given, err)
	}
	listener, err := bindUnix(ctx, a.path, mode)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.given, err)
	}
	return listener, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// removeStaleSocket removes a socket that nothing listens on. Anything else at the path is an error.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is not a socket; move it away or use another path")
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // Nothing was sent.
		return errors.New("the socket is in use by another process")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out whether the socket is in use: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}
