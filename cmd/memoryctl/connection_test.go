package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// selfSigned returns a certificate for 127.0.0.1, and a file with it.
func selfSigned(t *testing.T) (cert tls.Certificate, file string) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates[0], writeCertificate(t, s.Certificate())
}

func writeCertificate(t *testing.T, cert *x509.Certificate) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// tokens makes the service answer views, and returns where it notes with which tokens it was called.
func (s *service) tokens() *[]string {
	tokens := new([]string)
	s.unary = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		*tokens = append(*tokens, md.Get("authorization")...)
		return &memoryv1.ViewResponse{Result: text("x")}, nil
	}
	return tokens
}

func TestToken(t *testing.T) {
	s := startService(t)
	tokens := s.tokens()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MEMORYCTL_TOKEN", "told")
	for _, args := range [][]string{nil, {"--token-file", file}} {
		got := s.run(t, "", append([]string{"view", "/memories"}, args...)...)
		if diff := cmp.Diff(outcome{exitOK, "x\n", ""}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
	if diff := cmp.Diff([]string{"Bearer told", "Bearer filed"}, *tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}

	t.Setenv("MEMORYCTL_TOKEN_FILE", file)
	got := s.run(t, "", "view", "/memories")
	want := "memoryctl: MEMORYCTL_TOKEN and MEMORYCTL_TOKEN_FILE exclude each other\n"
	if got.Status != exitUsage || !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("got %d, %q, want %d, %q", got.Status, got.Stderr, exitUsage, want)
	}
	if got := s.run(t, "", "version"); got.Status != exitOK {
		t.Errorf("version: got %+v; it connects to nothing", got)
	}
}

func TestTokenFile_Empty(t *testing.T) {
	s := startService(t)
	tokens := s.tokens()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := s.run(t, "", "view", "/memories", "--token-file", file)
	want := outcome{exitOther, "", "memoryctl: read token file " + file + ": the token is empty (UNAUTHENTICATED)\n"}
	if diff := cmp.Diff(want, got); diff != "" || len(*tokens) > 0 {
		t.Errorf("called with %q (-want +got):\n%s", *tokens, diff)
	}
}

func TestTLS(t *testing.T) {
	cert, ca := selfSigned(t)
	plain, secure := startService(t), startService(t, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	plain.tokens()
	tokens := secure.tokens()
	t.Setenv("MEMORYCTL_TOKEN", "told")
	got := secure.run(t, "", "view", "/memories", "--tls-ca", ca)
	if diff := cmp.Diff(outcome{exitOK, "x\n", ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Bearer told"}, *tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}

	for _, test := range []struct {
		name    string
		service *service
		args    []string
		want    string
	}{
		{"unknown authority", secure, []string{"--tls"}, "nobody who is trusted here has signed its certificate"},
		{"client in plain text", secure, nil, "it closed the connection: it may have been stopped, want TLS"},
		{"server in plain text", plain, []string{"--tls-ca", ca}, "it does not speak TLS there"},
		{
			"another name", secure,
			[]string{"--tls-ca", ca, "--tls-server-name", "memoryd.internal"},
			"its certificate is for another name",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.service.run(t, "", append([]string{"view", "/memories"}, test.args...)...)
			prefix := "memoryctl: memoryd cannot be reached at " + test.service.addr + ": " + test.want
			if got.Status != exitUnreachable || !strings.HasPrefix(got.Stderr, prefix) || strings.Count(got.Stderr, "\n") != 1 {
				t.Errorf("got %d, %q, want %d and one line, %q...", got.Status, got.Stderr, exitUnreachable, prefix)
			}
			if strings.Contains(got.Stderr, "told") {
				t.Errorf("%q holds the token", got.Stderr)
			}
		})
	}
}
