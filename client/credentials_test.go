package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const testToken = "mdt_0123456789abcdefghijklmnop"

// callers is a service that notes who calls.
type callers struct {
	mu     sync.Mutex
	tokens []string // the authorization of each call; "" where there was none
	names  []string // of the certificates
}

func (c *callers) fake() *fake {
	return &fake{unary: func(ctx context.Context, method string, _ proto.Message) (proto.Message, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		md, _ := metadata.FromIncomingContext(ctx)
		c.tokens = append(c.tokens, strings.Join(md.Get("authorization"), ","))
		if p, _ := peer.FromContext(ctx); p != nil {
			if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
				c.names = append(c.names, info.State.PeerCertificates[0].Subject.CommonName)
			}
		}
		return emptyResponse(method), nil
	}}
}

func view(t *testing.T, c *Client) error {
	t.Helper()
	_, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories"})
	return err
}

func serverTLS(cert tls.Certificate, clients *x509.CertPool) grpc.ServerOption {
	config := &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: clients}
	if clients != nil {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config))
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	caFile := ca.caFile(t, dir)
	localhost := ca.issue(t, "localhost", time.Hour)
	const closed = "code = Unavailable" // how soon the client notices is chance, and so is the text
	for _, tt := range []struct {
		name   string
		server grpc.ServerOption
		opt    Option
		want   string // in the error; "" for none
	}{
		{"config", serverTLS(localhost, nil), WithTLS(&tls.Config{RootCAs: ca.pool()}), ""},
		{"files", serverTLS(localhost, nil), WithTLSFiles(TLSFiles{CA: caFile}), ""},
		{
			"name in the config", serverTLS(ca.issue(t, "memoryd.internal", time.Hour), nil),
			WithTLS(&tls.Config{RootCAs: ca.pool(), ServerName: "memoryd.internal"}), "",
		},
		{
			"name beside the files", serverTLS(ca.issue(t, "memoryd.internal", time.Hour), nil),
			WithTLSFiles(TLSFiles{CA: caFile, ServerName: "memoryd.internal"}), "",
		},
		{
			"another name", serverTLS(ca.issue(t, "memoryd.internal", time.Hour), nil),
			WithTLSFiles(TLSFiles{CA: caFile}), "certificate is valid for memoryd.internal, not localhost",
		},
		{"authorities of the system", serverTLS(localhost, nil), WithTLS(nil), "certificate signed by unknown authority"},
		{
			"authorities of the system, by files", serverTLS(localhost, nil), WithTLSFiles(TLSFiles{}),
			"certificate signed by unknown authority",
		},
		{
			"wrong authority", serverTLS(other.issue(t, "localhost", time.Hour), nil), WithTLSFiles(TLSFiles{CA: caFile}),
			"certificate signed by unknown authority",
		},
		{
			"expired", serverTLS(ca.issue(t, "localhost", -time.Minute), nil), WithTLSFiles(TLSFiles{CA: caFile}),
			"certificate has expired or is not yet valid",
		},
		{
			"server in plain text",
			grpc.EmptyServerOption{},
			WithTLSFiles(TLSFiles{CA: caFile}),
			"first record does not look like a TLS handshake",
		},
		{"client in plain text", serverTLS(localhost, nil), WithTimeout(time.Minute), closed},
		{
			"old version", grpc.Creds(credentials.NewTLS(&tls.Config{
				Certificates: []tls.Certificate{localhost}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
			})), WithTLS(&tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10}), "protocol version",
		},
		{
			"no client certificate", serverTLS(localhost, ca.pool()), WithTLSFiles(TLSFiles{CA: caFile}),
			closed, // TLS 1.3 refuses after the handshake of the client, and "certificate required" may come too late
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listen(t, "unix", filepath.Join(t.TempDir(), "memoryd.sock"))
			serve(t, l, &fake{}, tt.server)
			err := view(t, dial(t, "unix:"+l.Addr().String(), tt.opt, WithRetryBudget(0)))
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!IsUnreachable(err) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want a service that cannot be reached: ...%s", err, tt.want)
			}
		})
	}
}

// The config of the caller stays as it is.
func TestWithTLS_Copies(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS10}
	dial(t, "", WithTLS(config))
	if config.MinVersion != tls.VersionTLS10 || config.NextProtos != nil {
		t.Errorf("the config was changed: %+v", config)
	}
}

func TestDial_BadCredentials(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	certFile, keyFile := certFiles(t, dir, ca.issue(t, "a", time.Hour))
	otherCert, _ := certFiles(t, t.TempDir(), ca.issue(t, "b", time.Hour))
	missing := filepath.Join(dir, "missing.pem")
	for _, tt := range []struct {
		name string
		opt  Option
		want string
	}{
		{"no CA", WithTLSFiles(TLSFiles{CA: missing}), "no such file"},
		{"bad CA", WithTLSFiles(TLSFiles{CA: keyFile}), "no certificate in PEM form in " + keyFile},
		{"no key", WithTLSFiles(TLSFiles{Cert: certFile}), "a certificate and its key come together"},
		{"no certificate", WithTLSFiles(TLSFiles{Key: keyFile}), "a certificate and its key come together"},
		{"missing key", WithTLSFiles(TLSFiles{Cert: certFile, Key: missing}), "no such file"},
		{"another key", WithTLSFiles(TLSFiles{Cert: otherCert, Key: keyFile}), "private key does not match public key"},
		{"empty token", WithToken(""), "the token is empty"},
		{"newline", WithToken(testToken + "\n"), "the token has characters other than a-z, A-Z, 0-9 and -._~+/="},
		{"quotes", WithToken(`"` + testToken + `"`), "the token has characters other than a-z, A-Z, 0-9 and -._~+/="},
		{"umlaut", WithToken("ü"), "the token has characters other than a-z, A-Z, 0-9 and -._~+/="},
		{"long token", WithToken(strings.Repeat("x", maxTokenBytes+1)), "the token has more than 8192 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Dial("", tt.opt)
			if err == nil {
				_ = c.Close()
				t.Fatal("Dial succeeded")
			}
			got := err.Error()
			if !strings.HasPrefix(got, "dial memoryd: ") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want dial memoryd: ...%s", got, tt.want)
			}
			if strings.Contains(got, testToken) {
				t.Errorf("%q holds the token", got)
			}
		})
	}
}

// Files that are replaced count for the next connection.
func TestTLSFiles_Renewed(t *testing.T) {
	ca, next, dir := newAuthority(t), newAuthority(t), t.TempDir()
	files := TLSFiles{CA: ca.caFile(t, dir)}
	files.Cert, files.Key = certFiles(t, dir, ca.issue(t, "agent-1", time.Hour))

	seen := new(callers)
	n := &network{}
	begin := func(a *authority) *grpc.Server {
		return n.start(t, seen.fake(), serverTLS(a.issue(t, "memoryd", time.Hour), a.pool()))
	}
	s := begin(ca)
	c := n.client(t, WithTLSFiles(files))
	if err := view(t, c); err != nil {
		t.Fatal(err)
	}

	// The service comes back under another authority.
	s.Stop()
	s = begin(next)
	next.caFile(t, dir)
	certFiles(t, dir, next.issue(t, "agent-2", time.Hour))
	if err := view(t, c); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen.names, " "), "agent-1 agent-2"; got != want {
		t.Errorf("the service saw %q, want %q", got, want)
	}

	writeFile(t, files.Key, "broken")
	s.Stop()
	begin(next)
	if err := view(t, n.client(t, WithTLSFiles(TLSFiles{CA: files.CA}), WithRetryBudget(0))); !IsUnreachable(err) {
		t.Errorf("without a certificate: got %v, want a service that cannot be reached", err)
	}
	c.timing = (&fakeClock{time: time.Now()}).timing()
	if err := view(t, c); !IsUnreachable(err) || !strings.Contains(err.Error(), "read client certificate from") {
		t.Errorf("got %v, want a service that cannot be reached, because of the client certificate", err)
	}
}

// A handshake that fails is tried again as a connection that is refused is: at most once a second in the end.
func TestTLS_NoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other := newAuthority(t), newAuthority(t)
		dials := 0
		n := &network{wrap: func(c net.Conn) net.Conn { dials++; return c }}
		n.start(t, &fake{}, serverTLS(other.issue(t, "memoryd", time.Hour), nil))
		h := n.client(t, WithTLS(&tls.Config{RootCAs: ca.pool()})).Handler("")
		began := time.Now()
		for range 5 {
			checkResult(t, h.Handle(t.Context(), json.RawMessage(createInput)), unreachable)
		}
		if took := time.Since(began); took > DefaultRetryBudget {
			t.Errorf("took %v, want the retry budget at most", took)
		}
		if dials > 20 {
			t.Errorf("connected %d times in %v", dials, DefaultRetryBudget)
		}
	})
}

// addrConn is a connection that seems to go somewhere else.
type addrConn struct {
	net.Conn
	addr net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.addr }

// A token goes over TLS, to unix sockets and to this machine, and nowhere else.
func TestToken_WhereItIsSent(t *testing.T) {
	ca := newAuthority(t)
	secure := WithTLS(&tls.Config{RootCAs: ca.pool()})
	far := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 7711}
	for _, tt := range []struct {
		name string
		addr net.Addr // of the service
		tls  bool
		opts []Option
		sent bool
	}{
		{"unix socket", &net.UnixAddr{Net: "unix", Name: "/run/memoryd.sock"}, false, nil, true},
		{"loopback", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9), Port: 7711}, false, nil, true},
		{"loopback of IPv6", &net.TCPAddr{IP: net.IPv6loopback, Port: 7711}, false, nil, true},
		{
			"loopback with credentials of the caller", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7711}, false,
			[]Option{WithDialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()))},
			true,
		},
		{"TLS", far, true, []Option{secure}, true},
		{"another machine", far, false, nil, false},
		{"another machine of IPv6", &net.TCPAddr{IP: net.ParseIP("fd00::7"), Port: 7711}, false, nil, false},
		{
			"another machine with credentials of the caller", far, false,
			[]Option{secure, WithDialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()))},
			false,
		},
		{"who knows where", &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}, false, nil, false},
		{"another machine, as asked for", far, false, []Option{WithTokenInPlainText()}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var server grpc.ServerOption = grpc.EmptyServerOption{}
			if tt.tls {
				server = serverTLS(ca.issue(t, "memoryd", time.Hour), nil)
			}
			seen := new(callers)
			n := &network{wrap: func(c net.Conn) net.Conn { return addrConn{c, tt.addr} }}
			n.start(t, seen.fake(), server)
			c := n.client(t, append(tt.opts, WithToken(testToken))...)
			err := view(t, c)
			if tt.sent {
				if err != nil {
					t.Error(err)
				}
				if got, want := strings.Join(seen.tokens, " "), "Bearer "+testToken; got != want {
					t.Errorf("the service got %q, want %q", got, want)
				}
				return
			}
			const want = "the token was not sent, as the connection to the service is in plain text and leaves this machine; use TLS"
			if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != want {
				t.Errorf("got %v, want UNAUTHENTICATED: %s", err, want)
			}
			checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(createInput)), notPermitted)
			if len(seen.tokens) > 0 {
				t.Errorf("the service was called: %q", seen.tokens)
			}
		})
	}
}

// Streams carry the token too.
func TestToken_Streams(t *testing.T) {
	var got []string
	f := &fake{fakeFiles: fakeFiles{put: func(stream putStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		got = md.Get("authorization")
		return status.Error(codes.PermissionDenied, "no")
	}}}
	c, _ := start(t, f, WithToken(testToken))
	_, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, strings.NewReader("x"))
	if status.Code(err) != codes.PermissionDenied || len(got) != 1 || got[0] != "Bearer "+testToken {
		t.Errorf("got %q and %v, want the token", got, err)
	}
}

func TestTokenFile_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := writeFile(t, filepath.Join(t.TempDir(), "token"), "first\n")
		seen := new(callers)
		n := &network{}
		n.start(t, seen.fake())
		c := n.client(t, WithTokenFile(file), WithTokenInPlainText())
		for _, step := range []struct {
			content string
			wait    time.Duration
		}{
			{"first\n", 0},
			{"other\n", 999 * time.Millisecond}, // of the same size
			{"other\n", time.Millisecond},
			{" \tthird\r\n\r\n", time.Second},
		} {
			writeFile(t, file, step.content)
			time.Sleep(step.wait)
			if err := view(t, c); err != nil {
				t.Fatal(err)
			}
		}
		want := "Bearer first, Bearer first, Bearer other, Bearer third"
		if got := strings.Join(seen.tokens, ", "); got != want {
			t.Errorf("the service got %q, want %q", got, want)
		}
	})
}

// A token file that holds none is an error without a second attempt, and none of its content is said.
func TestTokenFile_Bad(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string { return writeFile(t, filepath.Join(dir, name), content) }
	for _, tt := range []struct{ file, want string }{
		{filepath.Join(dir, "missing"), "no such file or directory"},
		{dir, "is a directory"},
		{file("empty", ""), "the token is empty"},
		{file("blank", " \n"), "the token is empty"},
		{file("two lines", testToken+"\n"+testToken), "the token has characters other than a-z, A-Z, 0-9 and -._~+/="},
		{file("long", strings.Repeat("x", 8193)), "the token has more than 8192 bytes"},
		{file("large", testToken+strings.Repeat(" ", 16<<10)), "it has more than 16384 bytes"},
	} {
		t.Run(filepath.Base(tt.file), func(t *testing.T) {
			seen := new(callers)
			c, _ := start(t, seen.fake(), WithTokenFile(tt.file))
			clock := &fakeClock{time: time.Now()}
			c.timing = clock.timing()
			err := view(t, c)
			want := "read token file " + tt.file + ": " + tt.want
			if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != want {
				t.Errorf("got %v, want UNAUTHENTICATED: %s", err, want)
			}
			if len(clock.slept()) > 0 || len(seen.tokens) > 0 || IsUnreachable(err) || MayHaveBeenMade(err) {
				t.Errorf("got %v after pauses of %v, want one attempt that was not made", err, clock.slept())
			}
			checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(createInput)), notPermitted)

			// It counts as soon as it is there.
			if info, err := os.Stat(tt.file); err == nil && info.IsDir() {
				return
			}
			writeFile(t, tt.file, testToken)
			if err := view(t, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// The longest token and all its characters are taken, as the service takes them.
func TestToken_AsTheServiceTakesIt(t *testing.T) {
	token := "AZaz09-._~+/="
	token += strings.Repeat("x", 8<<10-len(token))
	seen := new(callers)
	c, _ := start(t, seen.fake(), WithTokenFile(writeFile(t, filepath.Join(t.TempDir(), "token"), token+"\n")))
	if err := view(t, c); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen.tokens, " "), "Bearer "+token; got != want {
		t.Errorf("the service got %.20q... of %d bytes, want the token", got, len(got))
	}
}

// A token that the service refuses is read again, and the call is repeated once if there is another.
func TestTokenFile_Refused(t *testing.T) {
	const good = "Bearer good"
	for _, tt := range []struct {
		name string
		now  string // what the file holds when the service refuses; "" for no file
		want string // what the service gets, and whether that is the end
		fine bool
	}{
		{"read while it was written", "good\n", "Bearer go, Bearer good", true},
		{"the same", "go", "Bearer go", false},
		{"another that is no good", "goo", "Bearer go, Bearer goo", false},
		{"gone", "", "Bearer go", false},
		{"no token", "good\ngood", "Bearer go", false},
	} {
		for _, method := range []string{"view", "put", "get"} {
			t.Run(tt.name+"/"+method, func(t *testing.T) {
				file := writeFile(t, filepath.Join(t.TempDir(), "token"), "go")
				var tokens []string
				check := func(ctx context.Context) error {
					md, _ := metadata.FromIncomingContext(ctx)
					token := strings.Join(md.Get("authorization"), ",")
					if tokens = append(tokens, token); token == good {
						return nil
					}
					if tt.now == "" {
						_ = os.Remove(file)
					} else {
						writeFile(t, file, tt.now)
					}
					return status.Error(codes.Unauthenticated, "no valid credential")
				}
				var stored string
				f := &fake{unary: func(ctx context.Context, method string, _ proto.Message) (proto.Message, error) {
					return emptyResponse(method), check(ctx)
				}, fakeFiles: fakeFiles{
					put: func(stream putStream) error {
						stored = ""
						for {
							part, err := stream.Recv()
							if err != nil {
								break
							}
							stored += string(part.GetChunk())
						}
						if err := check(stream.Context()); err != nil {
							return err
						}
						return stream.SendAndClose(&memoryv1.PutResponse{})
					},
					get: func(_ *memoryv1.GetRequest, stream grpc.ServerStreamingServer[memoryv1.GetResponse]) error {
						if err := check(stream.Context()); err != nil {
							return err
						}
						return stream.Send(&memoryv1.GetResponse{Part: &memoryv1.GetResponse_Header{
							Header: &memoryv1.GetHeader{},
						}})
					},
				}}
				c, _ := start(t, f, WithTokenFile(file), WithRetryBudget(0))
				clock := &fakeClock{time: time.Now()}
				c.timing = clock.timing()
				var err error
				switch method {
				case "view":
					err = view(t, c)
				case "put":
					_, err = c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, strings.NewReader("text"))
					if stored != "text" {
						t.Errorf("the service got %q, want all of the file", stored)
					}
				case "get":
					_, err = c.Get(t.Context(), &memoryv1.GetRequest{Path: "/memories/a"}, io.Discard)
				}
				want := codes.OK
				if !tt.fine {
					want = codes.Unauthenticated
				}
				if status.Code(err) != want || MayHaveBeenMade(err) {
					t.Errorf("got %v, want %v and nothing changed", err, want)
				}
				if got := strings.Join(tokens, ", "); got != tt.want {
					t.Errorf("the service got %q, want %q", got, tt.want)
				}
				if got := clock.slept(); len(got) > 0 {
					t.Errorf("the call paused for %v", got)
				}
			})
		}
	}
}

// What a pipe gives comes once, and counts for ever.
func TestTokenFile_Pipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(testToken+"\n"), 0) }()
	f := &tokenFile{path: pipe}
	for range 2 {
		if got, err := f.token(); got != testToken || err != nil {
			t.Errorf("got %q, %v, want the token", got, err)
		}
		f.read = f.read.Add(-time.Hour)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// The last option of a kind counts.
func TestCredentials_LastCounts(t *testing.T) {
	ca := newAuthority(t)
	missing := filepath.Join(t.TempDir(), "missing")
	secure := WithTLS(&tls.Config{RootCAs: ca.pool()})
	seen := new(callers)
	n := &network{}
	n.start(t, seen.fake(), serverTLS(ca.issue(t, "memoryd", time.Hour), nil))
	for _, opts := range [][]Option{
		{WithToken(""), WithTokenFile(writeFile(t, missing+"-not", testToken)), secure},
		{WithTokenFile(missing), WithToken(testToken), secure},
		{WithToken(testToken), WithTLSFiles(TLSFiles{CA: missing, ServerName: "another"}), secure},
	} {
		if err := view(t, n.client(t, opts...)); err != nil {
			t.Error(err)
		}
	}
	if got, want := strings.Join(seen.tokens, ","), strings.Repeat(",Bearer "+testToken, 3)[1:]; got != want {
		t.Errorf("the service got %q, want %q", got, want)
	}
}
