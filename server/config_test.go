package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestConfig_Validate(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want string // "" for none
	}{
		{"zero", Config{}, ""},
		{"addresses", Config{
			Listen: []string{"127.0.0.1:0", "localhost:7711", "[::1]:7711", ":1", "unix:///run/m.sock", "unix:m.sock"},
			HTTP:   "127.0.0.1:7712",
		}, ""},
		{
			"no port",
			Config{Listen: []string{"127.0.0.1:7711", "localhost"}},
			"Listen is localhost: it must be host:port, unix:///absolute/path or unix:relative/path",
		},
		{
			"empty",
			Config{Listen: []string{""}},
			"Listen is : it must be host:port, unix:///absolute/path or unix:relative/path",
		},
		{
			"scheme",
			Config{Listen: []string{"http://localhost:1"}},
			"Listen is http://localhost:1: it must be host:port, unix:///absolute/path or unix:relative/path",
		},
		{
			"host in a socket",
			Config{Listen: []string{"unix://m.sock"}},
			"Listen is unix://m.sock: it must be host:port, unix:///absolute/path or unix:relative/path",
		},
		{
			"abstract socket",
			Config{Listen: []string{"unix:@m"}},
			"Listen is unix:@m: it must be host:port, unix:///absolute/path or unix:relative/path",
		},
		{"port", Config{HTTP: "localhost:65536"}, "HTTP is localhost:65536: its port must be a number from 0 to 65535"},
		{"shutdown", Config{ShutdownTimeout: -time.Second}, "ShutdownTimeout is -1s: it must be longer than 0s"},
		{"call", Config{CallTimeout: -1}, "CallTimeout is -1ns: it must be longer than 0s"},
		{"backups", Config{BackupEvery: time.Hour, BackupDir: "backups", BackupKeep: 3}, ""},
		{
			"backups never",
			Config{BackupDir: "backups"},
			"BackupEvery is 0s: it must be longer than 0s, since there is a directory for backups",
		},
		{
			"backups all the time",
			Config{BackupEvery: time.Millisecond, BackupDir: "backups"},
			"BackupEvery is 1ms: it must be 0s (off), or 1s or more",
		},
		{
			"backups to nowhere",
			Config{BackupEvery: time.Hour},
			"BackupDir is : it must be a directory, since backups are to be made",
		},
		{"keep", Config{BackupKeep: -1}, "BackupKeep is -1: it must be 1 or more"},
		{"calls", Config{MaxConcurrentCalls: -1}, "MaxConcurrentCalls is -1: it must be 1 or more"},
		{
			"bytes",
			Config{MaxConcurrentBytes: 1},
			"MaxConcurrentBytes is 1: it must be 16777216 (one request) or more",
		},
		{
			"create",
			Config{Defaults: memory.Settings{CreateOnExisting: new(memory.CreateOnExisting(3))}},
			"Defaults.CreateOnExisting is 3: it must be error or overwrite",
		},
		{
			"view",
			Config{Defaults: memory.Settings{ViewMaxChars: new(int64(-1))}},
			"Defaults.ViewMaxChars is -1: it must be 0 (no limit) or more",
		},
		{
			"file",
			Config{Defaults: memory.Settings{MaxFileBytes: new(int64(0))}},
			"Defaults.MaxFileBytes is 0: it must be 1 to 8388608",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.cfg.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConfig_LongSocket(t *testing.T) {
	err := Config{Listen: []string{"unix:/" + strings.Repeat("x", 200)}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "the path of a socket may have at most") {
		t.Errorf("got %v, want the limit", err)
	}
}

func TestAddress_Resolve(t *testing.T) {
	tests := []struct {
		address string
		remote  bool
	}{
		{"127.0.0.1:0", false},
		{"127.9.9.9:0", false},
		{"[::1]:0", false},
		{"localhost:0", false},
		{"unix:/run/x.sock", false},
		{":0", true},
		{"0.0.0.0:0", true},
		{"[::]:0", true},
		{"10.0.0.1:0", true},
		{"[::ffff:10.0.0.1]:0", true},
	}
	for _, tt := range tests {
		a, err := parseAddress("Listen", tt.address)
		if err != nil {
			t.Fatal(err)
		}
		_, remote, err := a.resolve(t.Context())
		if remote != tt.remote || err != nil {
			t.Errorf("%s: got remote %t, error %v; want %t", tt.address, remote, err, tt.remote)
		}
		cfg := Config{Listen: []string{tt.address}}.withDefaults()
		_, err = resolveAll(t.Context(), cfg)
		if tt.remote != (err != nil) {
			t.Errorf("%s: got error %v, want a refusal %t", tt.address, err, tt.remote)
		}
		if err != nil && !strings.Contains(err.Error(), "use 127.0.0.1 or a unix socket, or allow it with --insecure") {
			t.Errorf("%s: %v does not say what to do instead", tt.address, err)
		}
		cfg.Insecure = true
		if _, err := resolveAll(t.Context(), cfg); err != nil {
			t.Errorf("%s, insecure: %v", tt.address, err)
		}
	}
}

func TestAddress_ResolveUnknownHost(t *testing.T) {
	a, err := parseAddress("HTTP", "no such host:1")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = a.resolve(t.Context())
	var got *ConfigError
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want a *ConfigError", err)
	}
	want := &ConfigError{"HTTP", "no such host:1", "its host cannot be resolved"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
