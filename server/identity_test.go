package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// dialUnix is a DialContext that connects to a socket.
func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}
}

// everything is the grant of everything.
const everything = `grants: [{namespaces: ["**"], rights: [read, write, history, admin]}]`

// principalWith is a file with one principal who may do everything.
func principalWith(name, credential string) []byte {
	return fmt.Appendf(nil, "principals:\n- name: %s\n  %s\n  %s\n", name, credential, everything)
}

// tokensOf is a file with one principal with tokens who may do everything.
func tokensOf(name string, tokens ...string) []byte {
	var hashes []string
	for _, token := range tokens {
		hashes = append(hashes, "'"+hashOf(token)+"'")
	}
	return principalWith(name, "tokens: ["+strings.Join(hashes, ", ")+"]")
}

func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// tlsInfoOf is what the handshake of a connection came to.
func tlsInfoOf(t *testing.T, p peer.Peer) tls.ConnectionState {
	t.Helper()
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		t.Fatalf("got a connection with %T, want TLS", p.AuthInfo)
	}
	return info.State
}

func TestConfig_ValidateSecurity(t *testing.T) {
	jwt := JWT{JWKS: "jwks.json", Issuer: "i", Audience: "a"}
	with := func(change func(*JWT)) JWT {
		j := jwt
		change(&j)
		return j
	}
	tests := []struct {
		name string
		cfg  Config
		want string // the field and a part of what to give instead; "" for none
	}{
		{"all", Config{TLSCert: "c", TLSKey: "k", TLSClientCA: "ca", Principals: "p", JWT: jwt, SocketMode: 0o666}, ""},
		{"no key", Config{TLSCert: "c"}, "TLSKey is : it must be the file with the key"},
		{"no certificate", Config{TLSKey: "k"}, "TLSCert is : it must be the file with the certificate, since there is a key"},
		{"authority alone", Config{TLSClientCA: "ca", Principals: "p"}, "TLSCert is : it must be the file with the certificate, since those of clients"},
		{"clients without rights", Config{TLSCert: "c", TLSKey: "k", TLSClientCA: "ca"}, "Principals is : it must be a file that says what clients"},
		{"JWTs without rights", Config{JWT: jwt}, "Principals is : it must be a file that says what the subjects"},
		{"no keys", Config{Principals: "p", JWT: with(func(j *JWT) { j.JWKS = "" })}, "JWT.JWKS is : "},
		{"no issuer", Config{Principals: "p", JWT: with(func(j *JWT) { j.Issuer = "" })}, "JWT.Issuer is : "},
		{"no audience", Config{Principals: "p", JWT: with(func(j *JWT) { j.Audience = "" })}, "JWT.Audience is : "},
		{"algorithm alone", Config{Principals: "p", JWT: JWT{Algorithms: []string{"RS256"}}}, "JWT.JWKS is : "},
		{"leeway alone", Config{JWT: JWT{Leeway: time.Second}}, ""},
		{"leeway below", Config{JWT: JWT{Leeway: -1}}, "JWT.Leeway is -1ns: it must be 0s to 5m0s"},
		{"leeway above", Config{JWT: JWT{Leeway: time.Hour}}, "JWT.Leeway is 1h0m0s: it must be 0s to 5m0s"},
		{"group", Config{SocketMode: 0o660}, ""},
		{"everyone", Config{SocketMode: 0o666}, "SocketMode is 0666: every user of this machine could connect"},
		{"everyone, insecure", Config{SocketMode: 0o666, Insecure: true}, ""},
		{"no permissions", Config{SocketMode: os.ModeSticky | 0o600}, "SocketMode is "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if err == nil != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestPreflight has what New refuses before it makes anything, and nothing else.
func TestPreflight(t *testing.T) {
	ca := newAuthority(t)
	files := newFiles(t)
	tlsOnly := files.tls(ca)
	principals := files.write("principals.yaml", tokensOf("a", "x"))
	jwks := files.write("jwks.json", []byte(`{"keys":[]}`))
	broken := files.write("broken", []byte("principals:\n- nam: a\n"))
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"fine", Config{TLSCert: tlsOnly.TLSCert, TLSKey: tlsOnly.TLSKey, Principals: principals, Listen: []string{"127.0.0.1:1"}}, ""},
		{"a field", Config{TLSCert: "c"}, "TLSKey is "},
		{"an address", Config{Listen: []string{"0.0.0.0:1"}}, "Listen is 0.0.0.0:1: other machines can reach it"},
		{"no principals", Config{Principals: files.path("none")}, "Principals is " + files.path("none") + ": it cannot be used: open "},
		{"principals", Config{Principals: broken}, "Principals is " + broken + ": it cannot be used: line 2: "},
		{
			"certificates",
			Config{Principals: files.write("c.yaml", principalWith("a", "certificates: ['*']"))},
			"Principals is " + files.path("c.yaml") + ": it cannot be used: it names certificates, which nothing can check " +
				"without --tls-client-ca",
		},
		{
			"subjects",
			Config{Principals: files.write("j.yaml", principalWith("a", "jwt_subjects: [s]"))},
			"Principals is " + files.path("j.yaml") + ": it cannot be used: it names jwt_subjects, which nothing can check " +
				"without --jwt-jwks",
		},
		{"no certificate", Config{TLSCert: files.path("none"), TLSKey: tlsOnly.TLSKey}, "TLSCert is "},
		{
			"keys",
			Config{Principals: principals, JWT: JWT{JWKS: jwks, Issuer: "i", Audience: "a"}},
			"JWT.JWKS is " + jwks + ": JWTs cannot be checked with it: ",
		},
		{
			"algorithm",
			Config{Principals: principals, JWT: JWT{JWKS: jwks, Issuer: "i", Audience: "a", Algorithms: []string{"none"}}},
			`JWT.Algorithms is none: `,
		},
		{
			"authorities",
			Config{TLSCert: tlsOnly.TLSCert, TLSKey: tlsOnly.TLSKey, Principals: principals, TLSClientCA: tlsOnly.TLSKey},
			"TLSClientCA is " + tlsOnly.TLSKey + ": it cannot be used: there is no certificate in PEM",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			err := tt.cfg.Preflight(t.Context())
			var invalid *ConfigError
			if err == nil != (tt.want == "") || err != nil && (!strings.HasPrefix(err.Error(), tt.want) || !errors.As(err, &invalid)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err != nil {
				if _, got := New(t.Context(), tt.cfg); got == nil || got.Error() != err.Error() {
					t.Errorf("New: got %v, want %v", got, err)
				}
			}
			if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
				t.Errorf("something was made: %v, %v", entries, err)
			}
		})
	}
}

func TestResolveAll_Dangers(t *testing.T) {
	tests := []struct {
		name    string
		cfg     Config
		http    string // the address of the side port; "" is the address for calls instead
		missing string // what the refusal is for; "" where there is none
		warning string // of the log where it is insecure; "" for none
	}{
		{
			name: "nothing", missing: "calls are neither encrypted nor authenticated; give --tls-cert, --tls-key and --principals, use",
			warning: "calls are neither encrypted nor authenticated; whoever reaches it can read and change every memory",
		},
		{
			name: "TLS alone", cfg: Config{TLSCert: "c", TLSKey: "k"}, missing: "nobody is authenticated; give --principals, use",
			warning: "nobody is authenticated; whoever reaches it",
		},
		{
			name: "identity alone", cfg: Config{Principals: "p"}, missing: "nothing is encrypted; give --tls-cert and --tls-key, use",
			warning: "nothing is encrypted; whoever is on the way",
		},
		{name: "both", cfg: Config{TLSCert: "c", TLSKey: "k", Principals: "p"}},
		{
			name: "side port", http: "0.0.0.0:2", missing: "nothing is encrypted; give --tls-cert and --tls-key, use",
			warning: "nothing is encrypted; whoever is on the way",
		},
		// It needs no principals: it has no memories.
		{name: "side port with TLS", http: "0.0.0.0:2", cfg: Config{TLSCert: "c", TLSKey: "k"}},
		{
			name: "profiles", http: "0.0.0.0:2", cfg: Config{Pprof: true},
			missing: "calls are neither encrypted nor authenticated; give --tls-cert, --tls-key and --principals, use",
			warning: "calls are neither encrypted nor authenticated; whoever reaches it can take profiles of the process",
		},
		{
			name: "profiles with TLS", http: "0.0.0.0:2", cfg: Config{Pprof: true, TLSCert: "c", TLSKey: "k"},
			missing: "nobody is authenticated; give --principals, use",
			warning: "nobody is authenticated; whoever reaches it can take profiles of the process",
		},
		{
			name: "profiles with identity", http: "0.0.0.0:2", cfg: Config{Pprof: true, Principals: "p"},
			missing: "nothing is encrypted; give --tls-cert and --tls-key, use",
			warning: "nothing is encrypted; whoever is on the way",
		},
		{
			name: "profiles with both", http: "0.0.0.0:2",
			cfg: Config{Pprof: true, TLSCert: "c", TLSKey: "k", Principals: "p"},
		},
	}
	for _, tt := range tests {
		for _, insecure := range []bool{false, true} {
			log := &logBuffer{}
			cfg := tt.cfg
			cfg.Insecure, cfg.Logger = insecure, log.logger()
			if cfg.HTTP = tt.http; cfg.HTTP == "" {
				cfg.Listen = []string{"0.0.0.0:1"}
			}
			_, err := resolveAll(t.Context(), cfg)
			refused := tt.missing != "" && !insecure
			if refused != (err != nil) || refused && !strings.Contains(err.Error(), tt.missing) {
				t.Errorf("%s, insecure %t: got %v, want %q", tt.name, insecure, err, tt.missing)
			}
			warned := tt.warning != "" && insecure
			if warned != strings.Contains(log.String(), "INSECURE") || !strings.Contains(log.String(), tt.warning) && warned {
				t.Errorf("%s, insecure %t: got the log %s, want %q", tt.name, insecure, log, tt.warning)
			}
		}
	}
}

// TestServer_ClientCertificates has certificates of two authorities, one of which is replaced.
func TestServer_ClientCertificates(t *testing.T) {
	ca, clients, others := newAuthority(t), newAuthority(t), newAuthority(t)
	files := newFiles(t)
	cfg := files.tls(ca)
	cfg.TLSClientCA = files.write("clients.pem", clients.pem())
	cfg.Principals = files.write("principals.yaml", principalWith("a", "certificates: ['spiffe://acme/a']"))
	r := start(t, cfg)
	connect := func(cert ...tls.Certificate) *grpc.ClientConn {
		config := &tls.Config{RootCAs: ca.pool()}
		if len(cert) > 0 {
			// Also where the server does not ask for one of this authority.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert[0], nil }
		}
		return dialTLS(t, r, config)
	}
	good := connect(clients.client(t, "spiffe://acme/a", inDays(1)))
	wantCode(t, viewOn(t.Context(), good), codes.OK)
	wantCode(t, viewOn(t.Context(), connect(clients.client(t, "spiffe://acme/b", inDays(1)))), codes.Unauthenticated)
	wantCode(t, viewOn(t.Context(), connect()), codes.Unauthenticated)
	wantCode(t, viewOn(t.Context(), connect(others.client(t, "spiffe://acme/a", inDays(1)))), codes.Unavailable)
	wantCode(t, viewOn(t.Context(), connect(clients.client(t, "spiffe://acme/a", inDays(-1)))), codes.Unavailable)

	files.write("clients.pem", others.pem())
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, viewOn(t.Context(), good), codes.Unauthenticated) // on the connection that is open
	wantCode(t, viewOn(t.Context(), connect(clients.client(t, "spiffe://acme/a", inDays(1)))), codes.Unavailable)
	wantCode(t, viewOn(t.Context(), connect(others.client(t, "spiffe://acme/a", inDays(1)))), codes.OK)
	files.write("clients.pem", append(clients.pem(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate 2: ") {
		t.Errorf("got %v, want that the second certificate is broken", err)
	}
	wantCode(t, viewOn(t.Context(), connect(others.client(t, "spiffe://acme/a", inDays(1)))), codes.OK)
}

// TestServer_CertificateExpires has a certificate end while its connection is open.
func TestServer_CertificateExpires(t *testing.T) {
	ca := newAuthority(t)
	files := newFiles(t)
	cfg := files.tls(ca)
	cfg.TLSClientCA = files.write("clients.pem", ca.pem())
	cfg.Principals = files.write("principals.yaml", principalWith("a", "certificates: ['spiffe://acme/a']"))
	var ahead atomic.Int64
	cfg.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	r := start(t, cfg)
	config := &tls.Config{
		RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.client(t, "spiffe://acme/a", inDays(1))},
	}
	conn := dialTLS(t, r, config)
	wantCode(t, viewOn(t.Context(), conn), codes.OK)
	ahead.Store(int64(25 * time.Hour))
	wantCode(t, viewOn(t.Context(), conn), codes.Unauthenticated)
	wantCode(t, viewOn(t.Context(), dialTLS(t, r, config)), codes.Unavailable)
	ahead.Store(0)
	wantCode(t, viewOn(t.Context(), conn), codes.OK)
}

// jwksOf is a set with one key.
func jwksOf(key *ecdsa.PrivateKey) []byte {
	x, y := make([]byte, 32), make([]byte, 32)
	return fmt.Appendf(nil, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","alg":"ES256","use":"sig","x":%q,"y":%q}]}`,
		base64.RawURLEncoding.EncodeToString(key.X.FillBytes(x)), base64.RawURLEncoding.EncodeToString(key.Y.FillBytes(y)))
}

// jwtOf is a token of an issuer for a subject.
func jwtOf(t *testing.T, key *ecdsa.PrivateKey, issuer, subject string) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": "memoryd", "sub": subject, "exp": inDays(1).Unix(),
	})
	token.Header["kid"] = "k"
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestServer_JWT(t *testing.T) {
	files := newFiles(t)
	key, next := newKey(t), newKey(t)
	r := start(t, Config{
		Principals: files.write("principals.yaml", principalWith("a", "jwt_subjects: [user-42]")),
		JWT: JWT{
			JWKS: files.write("jwks.json", jwksOf(key)), Issuer: "https://issuer", Audience: "memoryd",
			Algorithms: []string{"ES256"},
		},
	})
	call := func(token string) error { return viewOn(withToken(t.Context(), token), r.conn) }
	wantCode(t, call(jwtOf(t, key, "https://issuer", "user-42")), codes.OK)
	wantCode(t, call(jwtOf(t, key, "https://issuer", "user-43")), codes.Unauthenticated)
	wantCode(t, call(jwtOf(t, key, "https://other", "user-42")), codes.Unauthenticated)
	wantCode(t, call(jwtOf(t, next, "https://issuer", "user-42")), codes.Unauthenticated)

	files.write("jwks.json", jwksOf(next))
	r.security.reloads.poll(t.Context())
	r.security.reloads.poll(t.Context())
	wantCode(t, call(jwtOf(t, key, "https://issuer", "user-42")), codes.Unauthenticated)
	wantCode(t, call(jwtOf(t, next, "https://issuer", "user-42")), codes.OK)

	files.write("jwks.json", []byte("{}"))
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "reload jwks: ") {
		t.Errorf("got %v, want that the keys are broken", err)
	}
	wantCode(t, call(jwtOf(t, next, "https://issuer", "user-42")), codes.OK)
}

// TestServer_PeerUID has the user of this process known by its number, for calls and on the side port.
func TestServer_PeerUID(t *testing.T) {
	for _, known := range []bool{true, false} {
		uid := os.Getuid()
		if !known {
			uid++
		}
		cfg := Config{
			Listen: []string{"unix:" + socketPath(t)}, HTTP: "unix:" + socketPath(t),
			Principals: newFiles(t).write("principals.yaml", principalWith("me", fmt.Sprintf("uids: [%d]", uid))),
		}
		r := start(t, cfg)
		call, page := codes.OK, http.StatusOK
		if !known {
			call, page = codes.Unauthenticated, http.StatusUnauthorized
		}
		wantCode(t, viewOn(t.Context(), r.conn), call)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialUnix(r.HTTPAddr().String())}}
		resp, err := client.Get("http://memoryd/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != page {
			t.Errorf("/metrics where the user is known is %t: got %d, want %d", known, resp.StatusCode, page)
		}
	}
}

// TestServer_IdentityIsForAllListeners has identity on sockets and on loopback addresses too.
func TestServer_IdentityIsForAllListeners(t *testing.T) {
	cfg := Config{
		Listen:     []string{"127.0.0.1:0", "unix:" + socketPath(t)},
		Principals: newFiles(t).write("principals.yaml", tokensOf("a", "good")),
	}
	r := start(t, cfg)
	for _, addr := range r.Addrs() {
		conn := dial(t, addr)
		wantCode(t, viewOn(t.Context(), conn), codes.Unauthenticated)
		wantCode(t, viewOn(withToken(t.Context(), "bad"), conn), codes.Unauthenticated)
		wantCode(t, viewOn(withToken(t.Context(), "good"), conn), codes.OK)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServer_Channelz(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := start(t, Config{Channelz: on})
		_, err := channelzpb.NewChannelzClient(r.conn).GetServers(t.Context(), &channelzpb.GetServersRequest{})
		want := codes.OK
		if !on {
			want = codes.Unimplemented
		}
		wantCode(t, err, want)
	}
}

func TestParseAuthorities(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	pool, n, err := parseAuthorities(append(a.pem(), b.pem()...))
	if err != nil || n != 2 {
		t.Fatalf("got %d, %v; want 2 authorities", n, err)
	}
	want := x509.NewCertPool()
	want.AddCert(a.cert)
	want.AddCert(b.cert)
	if !pool.Equal(want) {
		t.Error("got other authorities than those given")
	}
	for _, text := range []string{"", "no PEM"} {
		if _, _, err := parseAuthorities([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
