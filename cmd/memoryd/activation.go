package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/seed-7f2870e1/memoryd/server"
)

// systemdListeners are the sockets that systemd has opened for the service (socket activation). There are none where
// the process was started in another way.
func systemdListeners() ([]net.Listener, error) {
	if err := checkListenFDs(os.Getenv, os.Getpid()); err != nil {
		return nil, err
	}
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take the sockets of systemd: %w", err)
	}
	if i := slices.Index(listeners, nil); i >= 0 {
		closeAll(listeners)
		return nil, fmt.Errorf("socket %d of those that systemd passes takes no connections: "+
			"its unit must have ListenStream= and Accept=no", i+1)
	}
	return listeners, nil
}

// maxSystemdListeners is far more than a socket unit has, and fewer than would take long to look at.
const maxSystemdListeners = 1024

// checkListenFDs refuses more sockets than systemd can have passed. Package activation looks at as many as it is told.
func checkListenFDs(getenv func(name string) string, pid int) error {
	if getenv("LISTEN_PID") != strconv.Itoa(pid) {
		return nil // They are not for this process, or there are none.
	}
	// A number that is too large for an int comes as the largest one, and what is no number as 0.
	if n, _ := strconv.Atoi(getenv("LISTEN_FDS")); n > maxSystemdListeners {
		return settingErrorf("LISTEN_FDS is %s: it must be the number of sockets that systemd passes, at most %d; "+
			"unset it where systemd passes none", getenv("LISTEN_FDS"), maxSystemdListeners)
	}
	return nil
}

// addListeners makes a configuration serve on the sockets of systemd: in the place of the default address, and besides
// addresses that were set. An address that systemd has opened already may be among those. The listeners belong to the
// configuration from then on, and are closed where it fails.
func (s *settings) addListeners(cfg *server.Config, listeners []net.Listener) (err error) {
	defer func() {
		if err != nil {
			closeAll(listeners)
		}
	}()
	for _, l := range listeners {
		if err := checkListener(l.Addr(), *cfg); err != nil {
			return &settingError{fmt.Errorf("the socket %s of systemd: %w", l.Addr(), err)}
		}
	}
	if len(listeners) > 0 && s.sources[keyListen] == "default" {
		cfg.Listen = nil
	}
	cfg.Listen = slices.DeleteFunc(cfg.Listen, func(address string) bool {
		return slices.ContainsFunc(listeners, func(l net.Listener) bool { return isAddress(l.Addr(), address) })
	})
	cfg.Listeners = append(cfg.Listeners, listeners...)
	return nil
}

// checkListener refuses an address that is open to strangers, as the server refuses one of its own.
func checkListener(addr net.Addr, cfg server.Config) error {
	if cfg.Insecure {
		return nil
	}
	switch addr := addr.(type) {
	case *net.TCPAddr:
		if !addr.IP.IsLoopback() && (cfg.TLSCert == "" || cfg.Principals == "") {
			return errors.New("other machines can reach it; give --tls-cert, --tls-key and --principals, " +
				"a loopback address or a path in its unit, or allow it with --insecure")
		}
	case *net.UnixAddr:
		if cfg.Principals == "" && isOpenToUsers(addr.Name) {
			return errors.New("every user of this machine can connect to it; give --principals, SocketMode=0660 in its unit, " +
				"or allow it with --insecure")
		}
	}
	return nil
}

// isOpenToUsers tells whether the mode of a socket lets every user connect. An abstract socket has no mode.
func isOpenToUsers(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().Perm()&0o007 != 0
}

// isAddress tells whether an address as it is set is that of a listener.
func isAddress(addr net.Addr, given string) bool {
	if path, ok := strings.CutPrefix(given, "unix:"); ok {
		return addr.Network() == "unix" && addr.String() == strings.TrimPrefix(path, "//")
	}
	bound, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	// A host is looked up as the server would do it. What cannot be resolved is left to the server, which says so.
	asked, err := net.ResolveTCPAddr("tcp", given)
	return err == nil && asked.Port == bound.Port && asked.Port != 0 &&
		(asked.IP.Equal(bound.IP) || asked.IP == nil && bound.IP.Equal(net.IPv6unspecified))
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close() // The process ends.
		}
	}
}
