package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// address is an address to listen on, as it was given and as package net wants it.
type address struct {
	field   string // of the Config, for errors
	given   string
	network string // unix, tcp, or tcp4 where the host is an address of IPv4
	host    string // of tcp; empty is every interface
	port    string // of tcp
	path    string // of unix
}

// wantAddress is what to give instead of an address that cannot be read.
const wantAddress = "it must be host:port, unix:///absolute/path or unix:relative/path"

// parseAddress reads an address of a Config.
func parseAddress(field, given string) (address, error) {
	if path, ok := strings.CutPrefix(given, "unix:"); ok {
		return parseSocketPath(field, given, path)
	}
	host, port, err := net.SplitHostPort(given)
	if err != nil || strings.Contains(given, "/") {
		return address{}, &ConfigError{field, given, wantAddress}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return address{}, &ConfigError{field, given, "its port must be a number from 0 to 65535"}
	}
	return address{field: field, given: given, network: "tcp", host: host, port: port}, nil
}

func parseSocketPath(field, given, path string) (address, error) {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return address{}, &ConfigError{field, given, wantAddress}
		}
		path = rest
	}
	// One byte of the address of a socket ends it.
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return address{}, &ConfigError{field, given, fmt.Sprintf("the path of a socket may have at most %d bytes", most)}
	}
	// "@" would be an abstract socket, which has no owner and no mode.
	if path == "" || strings.HasSuffix(path, "/") || strings.HasPrefix(path, "@") || strings.ContainsRune(path, 0) {
		return address{}, &ConfigError{field, given, wantAddress}
	}
	return address{field: field, given: given, network: "unix", path: path}, nil
}

// showAddr is the address of a listener as people read it: as they give it in a Config.
func showAddr(addr net.Addr) string {
	if addr.Network() == "unix" {
		return showAddress("unix:" + addr.String())
	}
	return addr.String()
}

// showAddress is an address of a Config in the one spelling in which people read it.
func showAddress(given string) string {
	if path, ok := strings.CutPrefix(given, "unix:/"); ok && !strings.HasPrefix(path, "/") {
		return "unix:///" + path
	}
	return given
}

// resolve looks up the host of the address once, so that what is checked is what is listened on. remote tells whether
// other machines can reach it.
func (a address) resolve(ctx context.Context) (resolved address, remote bool, err error) {
	if a.network == "unix" {
		return a, false, nil
	}
	var addrs []netip.Addr
	if literal, err := netip.ParseAddr(a.host); err == nil {
		addrs = []netip.Addr{literal} // A look-up would make two addresses of "::".
	} else if a.host != "" {
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", a.host); err != nil {
			return address{}, false, &ConfigError{a.field, a.given, "its host cannot be resolved"}
		}
	}
	remote = len(addrs) == 0
	for _, addr := range addrs {
		remote = remote || !addr.Unmap().IsLoopback()
	}
	if len(addrs) > 0 {
		addr := preferIPv4(addrs)
		a.host = addr.String()
		if addr.Is4() {
			a.network = "tcp4" // Package net would take 0.0.0.0 for all addresses of IPv6 as well. [::] is meant so.
		}
	}
	return a, remote, nil
}

// overlaps tells whether a listener has the port of a resolved address, on its host or on all.
func (a address) overlaps(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || a.network == "unix" || strconv.Itoa(addr.Port) != a.port {
		return false
	}
	host := net.ParseIP(a.host) // nil is every interface
	return host == nil || host.IsUnspecified() || addr.IP.IsUnspecified() || host.Equal(addr.IP)
}

// openToUsers tells whether every user of the machine can connect to a socket for calls, and nobody asks who that is.
// Only --insecure allows it.
func (a address) openToUsers(cfg Config) bool {
	return a.network == "unix" && a.field != fieldHTTP && cfg.SocketMode&0o007 != 0 && cfg.Principals == ""
}

// danger is why other machines are not to reach an address.
type danger struct {
	is   string // what is wrong
	can  string // what others can do then
	give string // the flags that make up for it
}

// dangerOf returns why an address that other machines can reach is not safe with a configuration, nil where it is.
func dangerOf(field string, cfg Config) *danger {
	encrypted := cfg.TLSCert != ""
	// The side port has no memories, but may have profiles. Where there are principals it asks for one too.
	authenticated := cfg.Principals != "" || field == fieldHTTP && !cfg.Pprof
	exposed := "read and change every memory"
	if field == fieldHTTP {
		exposed = "take profiles of the process"
	}
	switch {
	case encrypted && authenticated:
		return nil
	case encrypted:
		return &danger{is: "nobody is authenticated", can: "whoever reaches it can " + exposed, give: "--principals"}
	case authenticated:
		return &danger{
			is: "nothing is encrypted", can: "whoever is on the way can read and change what passes",
			give: "--tls-cert and --tls-key",
		}
	default:
		return &danger{
			is:  "calls are neither encrypted nor authenticated",
			can: "whoever reaches it can " + exposed, give: "--tls-cert, --tls-key and --principals",
		}
	}
}

// refusal is the error of an address that is not safe.
func (d *danger) refusal(a address) error {
	return &ConfigError{a.field, a.given, "other machines can reach it, and " + d.is + "; give " + d.give +
		", use 127.0.0.1 or a unix socket, or allow it with --insecure"}
}

// preferIPv4 picks one of the addresses of a host, as net.Listen does.
func preferIPv4(addrs []netip.Addr) netip.Addr {
	for _, addr := range addrs {
		if addr = addr.Unmap(); addr.Is4() {
			return addr
		}
	}
	return addrs[0]
}
