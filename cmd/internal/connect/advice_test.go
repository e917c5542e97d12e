package connect

import (
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// The texts are those that gRPC and crypto/tls really have.
func TestAdvice_TLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	secure := func(cert tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	localhost := ca.issue(t, "memoryd", time.Hour, "localhost")
	mutual := secure(localhost)
	mutual.ClientCAs, mutual.ClientAuth = ca.pool(), tls.RequireAndVerifyClientCert
	mutual12 := mutual.Clone()
	mutual12.MaxVersion = tls.VersionTLS12 // under which the refusal comes within the handshake
	cert, key := certFiles(t, other.issue(t, "stranger", time.Hour))
	trusting := client.WithTLSFiles(client.TLSFiles{CA: ca.file})
	stranger := client.WithTLSFiles(client.TLSFiles{CA: ca.file, Cert: cert, Key: key})
	expired, expiredKey := certFiles(t, ca.issue(t, "agent", -time.Minute))
	late := client.WithTLSFiles(client.TLSFiles{CA: ca.file, Cert: expired, Key: expiredKey})

	const (
		closed     = "it closed the connection: it may have been stopped, want TLS"
		closedTo   = "it closed the connection: it may not accept the client certificate of --tls-cert, which may have expired"
		refusesOur = "it does not take the client certificate"
	)
	none, certified := Flags{}, Flags{certificateShown: true}
	for _, tt := range []struct {
		name   string
		server *tls.Config
		opt    client.Option
		flags  Flags
		want   []string // one of them
	}{
		{"unknown authority", secure(localhost), client.WithTLS(nil), none, []string{"nobody who is trusted here has signed"}},
		{"expired", secure(ca.issue(t, "memoryd", -time.Minute, "localhost")), trusting, none, []string{"its certificate has expired"}},
		{"another name", secure(ca.issue(t, "memoryd", time.Hour, "elsewhere")), trusting, none, []string{"its certificate is for another name"}},
		{"no name", secure(ca.issue(t, "memoryd", time.Hour)), trusting, none, []string{"its certificate is not one for this address"}},
		{"plain text", nil, trusting, none, []string{"it does not speak TLS there"}},
		{"TLS", secure(localhost), client.WithTimeout(time.Minute), none, []string{closed}},
		{"no client certificate", mutual12, trusting, none, []string{"it wants a client certificate", refusesOur}},
		{"another client certificate", mutual12, stranger, certified, []string{refusesOur}},
		// The refusal of TLS 1.3 comes after the handshake, and may come too late.
		{"no client certificate, TLS 1.3", mutual, trusting, none, []string{"it wants a client certificate", closed}},
		{"expired client certificate, TLS 1.3", mutual, late, certified, []string{refusesOur, closedTo}},
		{"another client certificate, TLS 1.3", mutual, stranger, certified, []string{refusesOur, closedTo}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target, _ := serve(t, tt.server)
			err := view(t, target, tt.opt)
			got := tt.flags.Advice(err, "")
			for _, want := range tt.want {
				if strings.HasPrefix(got, want) {
					return
				}
			}
			t.Errorf("got %q about %v, want one of %q", got, err, tt.want)
		})
	}
}

// A connection that was closed means something else where a certificate was shown.
func TestFlags_Advice(t *testing.T) {
	ca := newAuthority(t)
	cert, key := certFiles(t, ca.issue(t, "agent", time.Hour))
	certificate := "--tls-cert " + cert + " --tls-key " + key
	const (
		reset   = `connection error: desc = "transport: failed to write client preface: write tcp: broken pipe"`
		closed  = "it closed the connection: it may have been stopped, want TLS"
		refused = "it closed the connection: it may not accept the client certificate of --tls-cert, which may have expired " +
			"or be of an authority that it does not know, or"
	)
	for _, tt := range []struct {
		name, line string
		env        map[string]string
		err        error
		want       string
	}{
		{"nothing", "", nil, status.Error(codes.Unavailable, reset), closed},
		{"authority", "--tls-ca " + ca.file, nil, status.Error(codes.Unavailable, reset), closed},
		{"certificate", certificate, nil, status.Error(codes.Unavailable, reset), refused},
		{
			"certificate by environment", "",
			map[string]string{"MEMORYCTL_TLS_CERT": cert, "MEMORYCTL_TLS_KEY": key},
			status.Error(codes.Unavailable, reset), refused,
		},
		{
			"TLS is off", "--tls=false",
			map[string]string{"MEMORYCTL_TLS_CERT": cert, "MEMORYCTL_TLS_KEY": key},
			status.Error(codes.Unavailable, reset), closed,
		},
		{
			"the reason has come", certificate, nil,
			status.Error(codes.Unavailable, "remote error: tls: expired certificate"),
			"it does not take the client certificate",
		},
		{
			"it hangs", certificate, nil,
			status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: read unix @->/run/m.sock: `+
				`use of closed network connection"`), "it took the connection and did not answer",
		},
		{"nobody listens", certificate, nil, status.Error(codes.Unavailable, "connection refused"), "start memoryd there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f Flags
			if _, err := parse(t, &f, tt.line, tt.env); err != nil {
				t.Fatal(err)
			}
			if got := f.Advice(tt.err, ""); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q...", got, tt.want)
			}
		})
	}
}

// Files that were good for Dial may be gone for the connection.
func TestAdvice_FilesGone(t *testing.T) {
	ca := newAuthority(t)
	cert, key := certFiles(t, ca.issue(t, "agent", time.Hour))
	target, _ := serve(t, nil)
	c, err := client.Dial(target, client.WithRetryBudget(0),
		client.WithTLSFiles(client.TLSFiles{CA: ca.file, Cert: cert, Key: key}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing is under way any more
	if err := os.Remove(ca.file); err != nil {
		t.Fatal(err)
	}
	_, err = c.View(t.Context(), &memoryv1.ViewRequest{})
	if got, want := new(Flags).Advice(err, ""), "the file of --tls-ca can no longer be used"; got != want {
		t.Errorf("got %q about %v, want %q", got, err, want)
	}
}

func TestAdvice(t *testing.T) {
	of := func(code codes.Code, reason string) error {
		st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Domain: "memoryd", Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, tt := range []struct {
		name  string
		err   error
		about string
		want  string
	}{
		{"nobody listens", status.Error(codes.Unavailable, "connection refused"), "", "start memoryd there, or say where it is with --addr or MEMORYCTL_ADDR"},
		{"unauthenticated", of(codes.Unauthenticated, "UNAUTHENTICATED"), "", "give a valid token with MEMORYCTL_TOKEN or --token-file, or a certificate with --tls-cert and --tls-key"},
		{"denied", of(codes.PermissionDenied, "PERMISSION_DENIED"), "", "ask whoever runs memoryd for a right to it"},
		{"read-only", of(codes.PermissionDenied, "NAMESPACE_READ_ONLY"), "", "ask whoever runs memoryd for the right to write there"},
		{"denied in a namespace", of(codes.PermissionDenied, "NOT_PERMITTED"), "namespace a", "ask whoever runs memoryd for a right in namespace a"},
		{"read-only namespace", of(codes.PermissionDenied, "NAMESPACE_READ_ONLY"), "namespace a", "ask whoever runs memoryd for the right to write in namespace a"},
		{"by the client itself", status.Error(codes.Unauthenticated, "the token is empty"), "", ""},
		{"something else", of(codes.NotFound, "NAMESPACE_NOT_FOUND"), "", ""},
		{"no status", errors.New("x509: what?"), "", ""},
		{"none", nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := new(Flags).Advice(tt.err, tt.about); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
