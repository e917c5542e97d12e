package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// issuer is a CA.
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// begin is when the certificates of the tests begin to be valid; they are for an hour, those of CAs for a day.
var begin = time.Now().Add(-time.Minute).Truncate(time.Second)

func newIssuer(t testing.TB, by *issuer) *issuer {
	t.Helper()
	key, certificate := sign(t, by, &x509.Certificate{
		Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: begin, NotAfter: begin.Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	})
	return &issuer{certificate, key}
}

func (i *issuer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.certificate)
	return pool
}

// client issues a certificate that change may change.
func (i *issuer) client(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "cn"}, NotBefore: begin, NotAfter: begin.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	key, certificate := sign(t, i, template)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}
}

func sign(t testing.TB, by *issuer, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, parentKey := template, key
	if by != nil {
		parent, parentKey = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, certificate
}

// shows is the context of a call over a connection with a certificate.
func shows(ctx context.Context, certificates ...*x509.Certificate) context.Context {
	return peer.NewContext(ctx, &peer.Peer{
		Addr:     &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1},
		AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: certificates}},
	})
}

const certificatePolicy = `principals:
- {name: uri, certificates: ["spiffe://acme/support"]}
- {name: dns, certificates: ["support.acme.internal"]}
- {name: cn, certificates: ["cn"]}
- {name: token, tokens: [TOKEN]}
- {name: process, uids: [1000]}
`

func newCertificateAuthenticator(t testing.TB, now func() time.Time) *Authenticator {
	text := strings.ReplaceAll(certificatePolicy, "TOKEN", hashOf("good-token"))
	return New(Options{Policy: mustParse(t, text), Now: now})
}

func withURI(t testing.TB, uri string) func(*x509.Certificate) {
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *x509.Certificate) { c.URIs = append(c.URIs, u) }
}

func withNames(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func withCommonName(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject.CommonName = name }
}

func TestAuthenticate_CertificateNames(t *testing.T) {
	ca := newIssuer(t, nil)
	a := newCertificateAuthenticator(t, time.Now)
	a.SetClientCAs(ca.pool())
	spiffe := withURI(t, "spiffe://acme/support")
	tests := []struct {
		name   string
		change func(*x509.Certificate)
		want   string // "": unknown
	}{
		{"URI", spiffe, "uri"},
		{"URI before DNS name", func(c *x509.Certificate) { spiffe(c); withNames("support.acme.internal")(c) }, "uri"},
		{"first URI", func(c *x509.Certificate) { spiffe(c); withURI(t, "spiffe://acme/other")(c) }, "uri"},
		{"second URI", func(c *x509.Certificate) { withURI(t, "spiffe://acme/other")(c); spiffe(c) }, ""},
		{"another URI", withURI(t, "spiffe://acme/support/x"), ""},
		{"another URI and a known DNS name", func(c *x509.Certificate) {
			withURI(t, "spiffe://acme/other")(c)
			withNames("support.acme.internal")(c)
		}, ""},
		{"DNS name", withNames("support.acme.internal", "x"), "dns"},
		{"second DNS name", withNames("x", "support.acme.internal"), ""},
		{"common name", nil, "cn"},
		{"another DNS name and a known common name", withNames("x"), ""},
		{"common name like a URI", withCommonName("spiffe://acme/support"), ""},
		{"no name", withCommonName(""), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			leaf := ca.client(t, test.change).Leaf
			p, err := a.Authenticate(shows(t.Context(), leaf))
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
			byHTTP, httpErr := a.AuthenticateHTTP(request)
			if test.want == "" {
				wantCause(t, p, err, ErrUnauthenticated)
				wantCause(t, byHTTP, httpErr, ErrUnauthenticated)
				return
			}
			wantName(t, p, err, test.want)
			wantName(t, byHTTP, httpErr, test.want)
		})
	}
}

func TestAuthenticate_OtherCertificates(t *testing.T) {
	ca := newIssuer(t, nil)
	a := New(Options{Policy: mustParse(t, "principals: [{name: p, certificates: ['*']}, {name: q, certificates: [cn]}]")})
	a.SetClientCAs(ca.pool())
	p, err := a.Authenticate(shows(t.Context(), ca.client(t, withNames("x")).Leaf))
	wantName(t, p, err, "certificate:x")
	p, err = a.Authenticate(shows(t.Context(), ca.client(t, nil).Leaf))
	wantName(t, p, err, "q")
	p, err = a.Authenticate(shows(t.Context(), ca.client(t, withCommonName("a\nb")).Leaf))
	wantCause(t, p, err, errCertificate)
}

// The name is that of an authority that is trusted; nevertheless it must do no harm to the log.
func TestAuthenticate_UnknownCertificateIsNamed(t *testing.T) {
	ca := newIssuer(t, nil)
	a := newCertificateAuthenticator(t, time.Now)
	a.SetClientCAs(ca.pool())
	for name, want := range map[string]string{
		"x.acme.internal": `"x.acme.internal"`,
		"a\n\u202eb":      `"a\n\u202eb"`,
		strings.Repeat("a", 2*MaxCredentialBytes): `"` + strings.Repeat("a", MaxCredentialBytes) + `"`,
	} {
		p, err := a.Authenticate(shows(t.Context(), ca.client(t, withCommonName(name)).Leaf))
		wantCause(t, p, err, errCertificate)
		if got, want := errors.Unwrap(err).Error(), "unknown name in a client certificate: "+want; got != want {
			t.Errorf("got cause %s, want %s", got, want)
		}
	}
}

func TestAuthenticate_BadCertificates(t *testing.T) {
	ca, other := newIssuer(t, nil), newIssuer(t, nil)
	middle := newIssuer(t, ca)
	now := time.Now
	late := func() time.Time { return begin.Add(time.Hour + time.Second) }
	early := func() time.Time { return begin.Add(-time.Second) }
	server := ca.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	below := middle.client(t, nil).Leaf
	tests := []struct {
		name  string
		now   func() time.Time
		pool  *x509.CertPool
		shown []*x509.Certificate
		want  string // "": good
	}{
		{"good", now, ca.pool(), []*x509.Certificate{ca.client(t, nil).Leaf}, ""},
		{"by a CA between", now, ca.pool(), []*x509.Certificate{below, middle.certificate}, ""},
		{"by a CA between that is not shown", now, ca.pool(), []*x509.Certificate{below}, "client certificate: not issued by a CA that is trusted here"},
		{"another CA", now, other.pool(), []*x509.Certificate{ca.client(t, nil).Leaf}, "client certificate: not issued by a CA that is trusted here"},
		{"of itself", now, ca.pool(), []*x509.Certificate{other.certificate}, "client certificate: not issued by a CA that is trusted here"},
		{"expired", late, ca.pool(), []*x509.Certificate{ca.client(t, nil).Leaf}, "client certificate: expired or not yet valid"},
		{"not yet valid", early, ca.pool(), []*x509.Certificate{ca.client(t, nil).Leaf}, "client certificate: expired or not yet valid"},
		{"of a server", now, ca.pool(), []*x509.Certificate{server.Leaf}, "client certificate: not valid for a client"},
		{"none is accepted", now, nil, []*x509.Certificate{ca.client(t, nil).Leaf}, "no credential"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newCertificateAuthenticator(t, test.now)
			a.SetClientCAs(test.pool)
			for range 2 { // the second time with what is remembered
				p, err := a.Authenticate(shows(t.Context(), test.shown...))
				if test.want == "" {
					wantName(t, p, err, "cn")
					continue
				}
				wantCause(t, p, err, ErrUnauthenticated)
				if cause := errors.Unwrap(err); cause == nil || cause.Error() != test.want {
					t.Errorf("got cause %v, want %s", cause, test.want)
				}
			}
		})
	}
}

func TestAuthenticate_HeaderBeforeCertificate(t *testing.T) {
	ca := newIssuer(t, nil)
	a := newCertificateAuthenticator(t, time.Now)
	a.SetClientCAs(ca.pool())
	ctx := shows(t.Context(), ca.client(t, nil).Leaf)
	p, err := a.Authenticate(call(ctx, "Bearer good-token"))
	wantName(t, p, err, "token")
	p, err = a.Authenticate(call(ctx, "Bearer bad-token"))
	wantCause(t, p, err, errToken)
	p, err = a.Authenticate(call(ctx, ""))
	wantCause(t, p, err, errAuthorization)
}

// What a certificate is remembered with ends with the first certificate of its chain that expires.
func TestAuthenticate_ChainExpires(t *testing.T) {
	ca := newIssuer(t, nil)
	key, certificate := sign(t, ca, &x509.Certificate{
		Subject: pkix.Name{CommonName: "short"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: begin, NotAfter: begin.Add(10 * time.Minute), KeyUsage: x509.KeyUsageCertSign,
	})
	short := &issuer{certificate, key}
	now := begin
	a := newCertificateAuthenticator(t, func() time.Time { return now })
	a.SetClientCAs(ca.pool())
	ctx := shows(t.Context(), short.client(t, nil).Leaf, certificate)
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		now = begin.Add(after)
		p, err := a.Authenticate(ctx)
		wantName(t, p, err, "cn")
	}
	for _, after := range []time.Duration{10*time.Minute + time.Second, -time.Second} {
		now = begin.Add(after)
		p, err := a.Authenticate(ctx)
		wantCause(t, p, err, ErrUnauthenticated)
	}
}

func TestClientCAs_RememberedAreBounded(t *testing.T) {
	ca := newIssuer(t, nil)
	c := newClientCAs(ca.pool())
	c.verified.Resize(2)
	for range 5 {
		if _, err := c.name([]*x509.Certificate{ca.client(t, nil).Leaf}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.verified.Len(); got != 2 {
		t.Errorf("%d are remembered, want 2", got)
	}
}

// The connection of a client stays open while its certificate expires or its CA is replaced.
func TestAuthenticate_OpenConnection(t *testing.T) {
	ca := newIssuer(t, nil)
	var after atomic.Int64
	a := newCertificateAuthenticator(t, func() time.Time { return begin.Add(time.Duration(after.Load())) })
	a.SetClientCAs(ca.pool())
	client, connections := startService(t, a, ca)

	check := func(what string, want codes.Code) {
		t.Helper()
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		if got := status.Code(err); got != want {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
	check("valid", codes.OK)
	after.Store(int64(2 * time.Hour))
	check("expired", codes.Unauthenticated)
	after.Store(0)
	check("valid again", codes.OK)
	a.SetClientCAs(newIssuer(t, nil).pool())
	check("another CA", codes.Unauthenticated)
	a.SetClientCAs(ca.pool())
	check("its CA again", codes.OK)
	a.SetClientCAs(nil)
	check("no CA", codes.Unauthenticated)
	if got := connections.Load(); got != 1 {
		t.Errorf("there were %d connections, want 1", got)
	}
}

// startService serves health checks to clients that are known, and returns a client with a certificate of a CA.
func startService(t *testing.T, a *Authenticator, ca *issuer) (healthpb.HealthClient, *atomic.Int64) {
	t.Helper()
	serverCertificate := ca.client(t, func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"memoryd"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	var connections atomic.Int64
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca.pool(),
			Certificates: []tls.Certificate{serverCertificate},
			VerifyConnection: func(tls.ConnectionState) error {
				connections.Add(1)
				return nil
			},
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			p, err := a.Authenticate(ctx)
			if err != nil {
				return nil, err
			}
			return next(NewContext(ctx, p), req)
		}),
	)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: ca.pool(), ServerName: "memoryd",
		Certificates: []tls.Certificate{ca.client(t, nil)},
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn), &connections
}
