package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/resolver"
)

// parseTarget checks a target of Dial and returns it as gRPC wants it. gRPC checks little: it takes "http://host" for
// a host name, and a host without a port for one with port 443, and then every call fails.
func parseTarget(target string) (string, error) {
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		return unixTarget(target, path)
	}
	if scheme, rest, ok := strings.Cut(target, "://"); ok {
		if resolver.Get(scheme) == nil {
			return "", fmt.Errorf("bad target %q: unknown scheme %q; use host:port or unix:///path", target, scheme)
		}
		if scheme == "dns" {
			_, hostPort, ok := strings.Cut(rest, "/") // before the slash: the DNS server, usually nothing
			if !ok {
				return "", fmt.Errorf("bad target %q: write dns:///host:port", target)
			}
			return target, checkHostPort(target, hostPort)
		}
		return target, nil
	}
	return target, checkHostPort(target, target)
}

// unixTarget returns the target of a socket. Its path is taken as it is, while gRPC would read it as part of a URL.
func unixTarget(target, path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("bad target %q: write unix:///path or, for a relative path, unix:path", target)
		}
		path = rest
	}
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("bad target %q: no name of a socket", target)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("bad target %q: NUL in the path", target)
	case !strings.HasPrefix(path, "/"):
		if strings.ContainsAny(path, "?#") { // an opaque URL has no way to escape them
			return "", fmt.Errorf("bad target %q: a relative path cannot hold ? or #", target)
		}
		return "unix:" + path, nil
	}
	return (&url.URL{Scheme: "unix", Path: path}).String(), nil
}

func checkHostPort(target, hostPort string) error {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return fmt.Errorf("bad target %q: want host:port (%s)", target, cause(err))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("bad target %q: the port must be a number from 1 to 65535", target)
	}
	if strings.ContainsAny(host, " \t\r\n/\\?#@") {
		return fmt.Errorf("bad target %q: bad character in the host name", target)
	}
	return nil
}

// cause is the text of an error of net.SplitHostPort without the address, which the caller has said already.
func cause(err error) string {
	if addrErr := new(net.AddrError); errors.As(err, &addrErr) {
		return addrErr.Err
	}
	return err.Error()
}
