package client

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, tt := range []struct{ target, want string }{
		{"127.0.0.1:7711", "127.0.0.1:7711"},
		{"localhost:7711", "localhost:7711"},
		{"[::1]:7711", "[::1]:7711"},
		{":7711", ":7711"},
		{"dns:///memoryd.internal:7711", "dns:///memoryd.internal:7711"},
		{"dns://10.0.0.1/memoryd.internal:7711", "dns://10.0.0.1/memoryd.internal:7711"},
		{"passthrough:///bufnet", "passthrough:///bufnet"},
		{"unix:///run/memoryd.sock", "unix:///run/memoryd.sock"},
		{"unix:/run/memoryd.sock", "unix:///run/memoryd.sock"},
		{"unix:///run/50%/a b?#.sock", "unix:///run/50%25/a%20b%3F%23.sock"},
		{"unix:memoryd.sock", "unix:memoryd.sock"},
	} {
		t.Run(tt.target, func(t *testing.T) {
			got, err := parseTarget(tt.target)
			if err != nil || got != tt.want {
				t.Errorf("parseTarget(%q) = %q, %v, want %q", tt.target, got, err, tt.want)
			}
		})
	}
}

func TestDial_BadTarget(t *testing.T) {
	for _, tt := range []struct{ target, want string }{
		{"localhost", "want host:port (missing port in address)"},
		{"::1:7711", "want host:port (too many colons in address)"},
		{"localhost:", "the port must be a number from 1 to 65535"},
		{"localhost:0", "the port must be a number from 1 to 65535"},
		{"localhost:65536", "the port must be a number from 1 to 65535"},
		{"localhost:http", "the port must be a number from 1 to 65535"},
		{"local host:7711", "bad character in the host name"},
		{"http://localhost:7711", `unknown scheme "http"; use host:port or unix:///path`},
		{"dns://localhost:7711", "write dns:///host:port"},
		{"dns:///localhost", "want host:port (missing port in address)"},
		{"unix:", "no name of a socket"},
		{"unix://", "write unix:///path or, for a relative path, unix:path"},
		{"unix:///", "no name of a socket"},
		{"unix:///run/", "no name of a socket"},
		{"unix://run/memoryd.sock", "write unix:///path or, for a relative path, unix:path"},
		{"unix:///run/a\x00b", "NUL in the path"},
		{"unix:a?b", "a relative path cannot hold ? or #"},
	} {
		t.Run(tt.target, func(t *testing.T) {
			c, err := Dial(tt.target)
			if err == nil {
				_ = c.Close()
				t.Fatalf("Dial(%q) succeeded", tt.target)
			}
			got := err.Error()
			if !strings.HasPrefix(got, "dial memoryd: bad target ") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("Dial(%q): %v, want ... %s", tt.target, err, tt.want)
			}
		})
	}
}
