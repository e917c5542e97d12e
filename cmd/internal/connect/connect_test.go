package connect

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// options returns what a command line, split at blanks, and an environment ask for. ” is an empty argument.
func options(t *testing.T, line string, env map[string]string) ([]client.Option, error) {
	t.Helper()
	return parse(t, new(Flags), line, env)
}

// parse is options with the flags of its own.
func parse(t *testing.T, f *Flags, line string, env map[string]string) ([]client.Option, error) {
	t.Helper()
	cmd := &cobra.Command{}
	f.Add(cmd, cmd.Flags())
	if err := cmd.ParseFlags(strings.Fields(strings.ReplaceAll(line, "''", ""))); err != nil {
		t.Fatal(err)
	}
	return f.Options(cmd.Flags(), func(name string) string {
		if !slices.Contains(Variables(), name) {
			t.Errorf("asks for %s, which is none of the Variables", name)
		}
		return env[name]
	})
}

// view makes a call.
func view(t *testing.T, target string, opts ...client.Option) error {
	t.Helper()
	c, err := client.Dial(target, append(opts, client.WithRetryBudget(0))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing is under way any more
	_, err = c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories"})
	return err
}

func TestFlags_Options(t *testing.T) {
	ca := newAuthority(t)
	cert, key := certFiles(t, ca.issue(t, "agent", time.Hour))
	cert2, key2 := certFiles(t, ca.issue(t, "other", time.Hour))
	tokenFile, tokenFile2 := writeFile(t, "", []byte("filed\n")), writeFile(t, "", []byte("filed2"))
	secure := &tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, "memoryd", time.Hour, "localhost")}, ClientAuth: tls.RequestClientCert,
	}
	named := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "memoryd", time.Hour, "memoryd.internal")}}
	type env = map[string]string
	for _, tt := range []struct {
		name   string
		line   string
		env    env
		server *tls.Config // nil: plain text
		want   caller
	}{
		{name: "nothing"},
		{name: "token file", line: "--token-file " + tokenFile, want: caller{Token: "Bearer filed"}},
		{name: "token file by environment", env: env{"MEMORYCTL_TOKEN_FILE": tokenFile}, want: caller{Token: "Bearer filed"}},
		{name: "token by environment", env: env{"MEMORYCTL_TOKEN": "told\n"}, want: caller{Token: "Bearer told"}},
		{
			name: "flag over both", line: "--token-file " + tokenFile2,
			env: env{"MEMORYCTL_TOKEN": "told", "MEMORYCTL_TOKEN_FILE": tokenFile}, want: caller{Token: "Bearer filed2"},
		},
		{name: "CA", line: "--tls-ca " + ca.file, server: secure, want: caller{TLS: true}},
		{name: "CA by environment", env: env{"MEMORYCTL_TLS_CA": ca.file}, server: secure, want: caller{TLS: true}},
		{
			name: "no TLS by environment is the default", line: "--tls-ca " + ca.file, env: env{"MEMORYCTL_TLS": "false"},
			server: secure, want: caller{TLS: true},
		},
		{
			name: "no TLS by flag", line: "--tls=false",
			env:  env{"MEMORYCTL_TLS": "true", "MEMORYCTL_TLS_CA": ca.file, "MEMORYCTL_TLS_CERT": cert, "MEMORYCTL_TOKEN": "told"},
			want: caller{Token: "Bearer told"},
		},
		{
			name: "certificate", line: "--tls-ca " + ca.file + " --tls-cert " + cert + " --tls-key " + key,
			server: secure, want: caller{TLS: true, Certificate: "agent"},
		},
		{
			name: "certificate by environment", line: "--tls",
			env:    env{"MEMORYCTL_TLS_CA": ca.file, "MEMORYCTL_TLS_CERT": cert, "MEMORYCTL_TLS_KEY": key},
			server: secure, want: caller{TLS: true, Certificate: "agent"},
		},
		{
			name: "flag over environment", line: "--tls-cert " + cert2 + " --tls-key " + key2,
			env:    env{"MEMORYCTL_TLS_CA": ca.file, "MEMORYCTL_TLS_CERT": cert, "MEMORYCTL_TLS_KEY": key},
			server: secure, want: caller{TLS: true, Certificate: "other"},
		},
		{
			name: "server name", line: "--tls-server-name memoryd.internal", env: env{"MEMORYCTL_TLS_CA": ca.file},
			server: named, want: caller{TLS: true},
		},
		{
			name:   "server name by environment",
			env:    env{"MEMORYCTL_TLS_CA": ca.file, "MEMORYCTL_TLS_SERVER_NAME": "memoryd.internal", "MEMORYCTL_TOKEN": "told"},
			server: named, want: caller{Token: "Bearer told", TLS: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts, err := options(t, tt.line, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			target, callers := serve(t, tt.server)
			if err := view(t, target, opts...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, <-callers); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
		})
	}
}

// TLS can be asked for without any file, and with nothing but a name.
func TestFlags_SystemAuthorities(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{newAuthority(t).issue(t, "memoryd", time.Hour, "localhost")}}
	for _, tt := range []struct{ line, env string }{
		{"--tls", ""}, {"--tls-server-name localhost", ""}, {"", "1"}, {"--tls", "false"}, {"--tls", "maybe"},
	} {
		opts, err := options(t, tt.line, map[string]string{"MEMORYCTL_TLS": tt.env})
		if err != nil {
			t.Fatal(err)
		}
		target, _ := serve(t, config)
		if err := view(t, target, opts...); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%q, %q: got %v, want a certificate of an unknown authority", tt.line, tt.env, err)
		}
	}
}

func TestFlags_Usage(t *testing.T) {
	const missing = "/nowhere/token"
	type env = map[string]string
	for _, tt := range []struct {
		line string
		env  env
		want string
	}{
		{"--token-file=''", nil, "--token-file is empty"},
		{"--tls-ca=''", env{"MEMORYCTL_TLS_CA": "x"}, "--tls-ca is empty"},
		{"--token-file " + missing, nil, "--token-file: stat " + missing + ": no such file or directory"},
		{
			"",
			env{"MEMORYCTL_TOKEN_FILE": missing},
			"MEMORYCTL_TOKEN_FILE: stat " + missing + ": no such file or directory",
		},
		{
			"",
			env{"MEMORYCTL_TOKEN": "secret", "MEMORYCTL_TOKEN_FILE": missing},
			"MEMORYCTL_TOKEN and MEMORYCTL_TOKEN_FILE exclude each other",
		},
		{"", env{"MEMORYCTL_TLS": "maybe"}, `MEMORYCTL_TLS "maybe": want true or false`},
		{"--tls-cert c.pem", nil, "--tls-cert c.pem: its key is missing: give it with --tls-key"},
		{"--tls-key k.pem", nil, "--tls-key k.pem: its certificate is missing: give it with --tls-cert"},
		{"", env{"MEMORYCTL_TLS_CERT": "c.pem"}, "--tls-cert c.pem: its key is missing: give it with --tls-key"},
		{"--tls=false --tls-ca x", nil, "--tls=false and --tls-ca exclude each other"},
		{"--tls=false --tls-cert x", nil, "--tls=false and --tls-cert exclude each other"},
		{"--tls=false --tls-key x", nil, "--tls=false and --tls-key exclude each other"},
		{"--tls=false --tls-server-name x", nil, "--tls=false and --tls-server-name exclude each other"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			_, err := options(t, tt.line, tt.env)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// Every flag of the package and every variable is in the topic.
func TestTopic(t *testing.T) {
	text := Topic().Long
	for _, name := range Variables() {
		if !strings.Contains(text, name) {
			t.Errorf("the topic does not name %s", name)
		}
	}
	for _, s := range new(Flags).settings() {
		if !strings.Contains(text, "--"+s.flag+" ") {
			t.Errorf("the topic does not name --%s", s.flag)
		}
	}
}
