package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// hashOf is a token as a policy names it.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// call is the context of a call with authorization headers.
func call(ctx context.Context, authorization ...string) context.Context {
	for _, value := range authorization {
		md, _ := metadata.FromIncomingContext(ctx)
		ctx = metadata.NewIncomingContext(ctx, metadata.Join(md, metadata.Pairs("authorization", value)))
	}
	return ctx
}

// from is the context of a call from a peer.
func from(ctx context.Context, address string) context.Context {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err)
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: addr})
}

// fromUID is the context of a call of a process at a unix socket.
func fromUID(ctx context.Context, uid uint32, known bool) context.Context {
	return peer.NewContext(ctx, &peer.Peer{
		Addr: &net.UnixAddr{Name: "@", Net: "unix"}, AuthInfo: PeerInfo{UID: uid, HasUID: known},
	})
}

// wantName fails the test if a call is not by a principal.
func wantName(t *testing.T, p *Principal, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v (%v), want principal %q", err, errors.Unwrap(err), want)
	}
	if p.Name != want {
		t.Errorf("got principal %q, want %q", p.Name, want)
	}
}

// wantCause fails the test if a call does not fail with the one error, for a cause.
func wantCause(t *testing.T, p *Principal, err, want error) {
	t.Helper()
	if p != nil || !errors.Is(err, ErrUnauthenticated) || !errors.Is(err, want) {
		t.Errorf("got %v, %v (%v), want %v", p, err, errors.Unwrap(err), want)
	}
	if err != nil && err.Error() != ErrUnauthenticated.Error() {
		t.Errorf("got text %q, want %q", err, ErrUnauthenticated)
	}
}

const longToken = "x"

func tokenPolicy(t testing.TB) *Policy {
	return mustParse(t, fmt.Sprintf(`principals:
- name: support
  tokens: [%q, %q, %q]
- name: process
  uids: [1000]
`, hashOf("good-token"), hashOf("a.b_c~d+e/f=="), hashOf(strings.Repeat(longToken, MaxTokenBytes))))
}

func TestAuthenticate_Tokens(t *testing.T) {
	a := New(Options{Policy: tokenPolicy(t)})
	tests := []struct {
		name   string
		header []string
		cause  error // nil: it is good
	}{
		{"good", []string{"Bearer good-token"}, nil},
		{"another scheme's case", []string{"bEARER good-token"}, nil},
		{"every character", []string{"Bearer a.b_c~d+e/f=="}, nil},
		{"spaces", []string{"Bearer  good-token "}, nil},
		{"longest", []string{"Bearer " + strings.Repeat(longToken, MaxTokenBytes)}, nil},
		{"too long", []string{"Bearer " + strings.Repeat(longToken, MaxTokenBytes+1)}, errAuthorization},
		{"unknown", []string{"Bearer bad-token"}, errToken},
		{"another case", []string{"Bearer Good-token"}, errToken},
		{"beginning", []string{"Bearer good-toke"}, errToken},
		{"hash", []string{"Bearer " + strings.TrimPrefix(hashOf("good-token"), hashPrefix)}, errToken},
		{"looks like a JWT", []string{"Bearer a.b.c"}, errToken},
		{"no scheme", []string{"good-token"}, errAuthorization},
		{"other scheme", []string{"Basic good-token"}, errAuthorization},
		{"no token", []string{"Bearer "}, errAuthorization},
		{"empty", []string{""}, errAuthorization},
		{"tab", []string{"Bearer\tgood-token"}, errAuthorization},
		{"two in one", []string{"Bearer good-token, Bearer good-token"}, errAuthorization},
		{"NUL", []string{"Bearer good-token\x00"}, errAuthorization},
		{"two headers", []string{"Bearer good-token", "Bearer good-token"}, errAuthorization},
		{"two headers, one empty", []string{"Bearer good-token", ""}, errAuthorization},
		{"none", nil, errNoCredential},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := a.Authenticate(call(t.Context(), test.header...))
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			request.Header["Authorization"] = test.header
			byHTTP, httpErr := a.AuthenticateHTTP(request)
			if test.cause != nil {
				wantCause(t, p, err, test.cause)
				wantCause(t, byHTTP, httpErr, test.cause)
				return
			}
			wantName(t, p, err, "support")
			wantName(t, byHTTP, httpErr, "support")
		})
	}
}

func TestAuthenticate_Status(t *testing.T) {
	_, err := New(Options{}).Authenticate(call(t.Context(), "Bearer secret-token"))
	got := status.Convert(err)
	if got.Code() != codes.Unauthenticated || got.Message() != ErrUnauthenticated.Error() {
		t.Errorf("got %v", got)
	}
	for err := err; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the error holds the token: %v", err)
		}
	}
}

func TestAuthenticate_UIDs(t *testing.T) {
	a := New(Options{Policy: tokenPolicy(t)})
	p, err := a.Authenticate(fromUID(t.Context(), 1000, true))
	wantName(t, p, err, "process")
	p, err = a.Authenticate(fromUID(t.Context(), 1001, true))
	wantCause(t, p, err, errUID)
	p, err = a.Authenticate(fromUID(t.Context(), 1000, false))
	wantCause(t, p, err, errNoCredential)
	// What stands in the header decides.
	p, err = a.Authenticate(call(fromUID(t.Context(), 1000, true), "Bearer bad-token"))
	wantCause(t, p, err, errToken)
	p, err = a.Authenticate(call(fromUID(t.Context(), 1000, true), "Bearer good-token"))
	wantName(t, p, err, "support")

	request := httptest.NewRequestWithContext(fromUID(t.Context(), 1000, true), http.MethodGet, "/", nil)
	p, err = a.AuthenticateHTTP(request)
	wantName(t, p, err, "process")
}

// Whoever replaces a token learns from the log whether the old one is still used.
func TestAuthenticate_FirstUseOfToken(t *testing.T) {
	text := fmt.Sprintf("principals: [{name: p, tokens: [%q, %q]}]", hashOf("test"), hashOf("good-token"))
	var log strings.Builder
	a := New(Options{Policy: mustParse(t, text), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	use := func(token string, want string) {
		t.Helper()
		log.Reset()
		if _, err := a.Authenticate(call(t.Context(), "Bearer "+token)); err != nil && want != "" {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(log.String(), "level=")
		if got != want {
			t.Errorf("%s: got the line %q, want %q", token, got, want)
		}
	}
	const first = `INFO msg="token used for the first time since the principals were read" principal=p token=`
	use("bad-token", "")
	use("test", first+"9f86d081884c\n")
	use("test", "")
	use("good-token", first+strings.TrimPrefix(hashOf("good-token"), hashPrefix)[:12]+"\n")
	use("good-token", "")
	a.SetPolicy(mustParse(t, text)) // as a reload does
	use("test", first+"9f86d081884c\n")
	use("test", "")
}

func TestAuthenticator_SetPolicy(t *testing.T) {
	a := New(Options{Policy: tokenPolicy(t)})
	a.SetPolicy(mustParse(t, fmt.Sprintf("principals: [{name: new, tokens: [%q]}]", hashOf("new-token"))))
	p, err := a.Authenticate(call(t.Context(), "Bearer good-token"))
	wantCause(t, p, err, errToken)
	p, err = a.Authenticate(call(t.Context(), "Bearer new-token"))
	wantName(t, p, err, "new")
	a.SetPolicy(nil)
	p, err = a.Authenticate(call(t.Context(), "Bearer new-token"))
	wantCause(t, p, err, errToken)
}
