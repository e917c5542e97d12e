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
	network string // tcp or unix
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

// resolve looks up the host of the address once, so that what is checked is what is listened on. It refuses an address
// that other machines can reach, unless insecure. remote tells whether they can.
func (a address) resolve(ctx context.Context, insecure bool) (resolved address, remote bool, err error) {
	if a.network == "unix" {
		return a, false, nil
	}
	var addrs []netip.Addr
	if a.host != "" {
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", a.host); err != nil {
			return address{}, false, &ConfigError{a.field, a.given, "its host cannot be resolved"}
		}
	}
	remote = len(addrs) == 0
	for _, addr := range addrs {
		remote = remote || !addr.Unmap().IsLoopback()
	}
	if remote && !insecure {
		return address{}, true, &ConfigError{a.field, a.given, "other machines can reach it, and calls are neither " +
			"encrypted nor authenticated; use 127.0.0.1 or a unix socket, or allow it with --insecure"}
	}
	if len(addrs) > 0 {
		a.host = preferIPv4(addrs).String()
	}
	return a, remote, nil
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
