package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

func withUse(use jwkset.USE) func(*jwkset.JWKMetadataOptions) {
	return func(o *jwkset.JWKMetadataOptions) { o.USE = use }
}

func withOps(ops ...jwkset.KEYOPS) func(*jwkset.JWKMetadataOptions) {
	return func(o *jwkset.JWKMetadataOptions) { o.KEYOPS = ops }
}

func TestParseKeys(t *testing.T) {
	private := must(jwkset.NewJWKFromKey(rsaKey(), jwkset.JWKOptions{
		Marshal: jwkset.JWKMarshalOptions{Private: true}, Metadata: jwkset.JWKMetadataOptions{KID: "private"},
	})).Marshal()
	good := jwkOf("good", rsaKey())
	none := "there is no key that can be used"
	tests := []struct {
		name         string
		data         []byte
		ids          []string
		unusable     []string
		wantErrorHas string
	}{
		{"all kinds", allKeys(), []string{"rsa", "p256", "p384", "ed", "rs256"}, nil, ""},
		{"for signatures", jwksOf(jwkOf("a", rsaKey(), withUse(jwkset.UseSig)), jwkOf("b", rsaKey(), withOps(jwkset.KeyOpsVerify))), []string{"a", "b"}, nil, ""},
		{"for other things", jwksOf(good, jwkOf("a", rsaKey(), withUse(jwkset.UseEnc)), jwkOf("b", rsaKey(), withOps(jwkset.KeyOpsEncrypt))), []string{"good"}, nil, ""},
		{"with a private part", jwksOf(private), []string{"private"}, nil, ""},
		{"weak", jwksOf(good, jwkOf("weak", weakRSA())), []string{"good"}, []string{"key 2 has fewer than 2048 bits"}, ""},
		{"only weak", jwksOf(jwkOf("weak", weakRSA())), nil, nil, "key 1 has fewer than 2048 bits\n" + none},
		{"secret", jwksOf(good, object{"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}), []string{"good"}, []string{"key 2 is malformed or not public"}, ""},
		{"only a secret", jwksOf(object{"kty": "oct", "k": "c2VjcmV0"}), nil, nil, none},
		{"unknown type", jwksOf(object{"kty": "PQ"}, good), []string{"good"}, nil, ""},
		{"unknown curve", jwksOf(object{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, good), []string{"good"}, nil, ""},
		{"off the curve", jwksOf(object{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}, good), []string{"good"}, []string{"key 1 is malformed or not public"}, ""},
		{"no object", jwksOf("x", good), []string{"good"}, []string{"key 1 is malformed or not public"}, ""},
		{"empty", []byte(`{"keys":[]}`), nil, nil, none},
		{"no keys", []byte(`{}`), nil, nil, none},
		{"no JSON", []byte("<html>"), nil, nil, "it is no JWKS"},
		{"no list", []byte(`{"keys":{}}`), nil, nil, "it is no JWKS"},
		{"too many", jwksOf(make([]any, 101)...), nil, nil, "there are 101 keys, more than 100"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			keys, unusable, err := parseKeys(test.data)
			if test.wantErrorHas != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErrorHas) {
					t.Errorf("got %v, want %s", err, test.wantErrorHas)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids, why []string
			for _, key := range keys {
				ids = append(ids, key.Marshal().KID)
			}
			for _, err := range unusable {
				why = append(why, err.Error())
			}
			if diff := cmp.Diff(test.ids, ids); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(test.unusable, why); diff != "" {
				t.Errorf("unusable (-want +got)\n%s", diff)
			}
		})
	}
}

// The private part of a key is not kept.
func TestParseKeys_Public(t *testing.T) {
	private := must(jwkset.NewJWKFromKey(p256Key(), jwkset.JWKOptions{Marshal: jwkset.JWKMarshalOptions{Private: true}}))
	keys, _, err := parseKeys(jwksOf(private.Marshal()))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(must(json.Marshal(keys[0].Marshal()))); strings.Contains(got, `"d"`) {
		t.Error("the private part is kept")
	}
	if !p256Key().PublicKey.Equal(keys[0].Key()) {
		t.Errorf("got a %T, want the public key", keys[0].Key())
	}
}

func TestJWTVerifier_ReloadsFile(t *testing.T) {
	path := writeKeys(t, jwksOf(jwkOf("old", rsaKey())))
	v := newVerifier(t, JWTOptions{JWKS: path})
	defer v.Close()
	check := func(what, id string, want error) {
		t.Helper()
		_, err := v.verify(t.Context(), sealed(jwt.SigningMethodRS256, rsaKey(), id, jwtNow, nil, nil))
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	check("old key", "old", nil)
	check("new key", "new", errJWTKey)
	for what, data := range map[string]string{
		"empty file": "", "broken file": `{"keys":[`, "file without keys": `{"keys":[]}`,
		"large file": strings.Repeat(" ", maxJWKSBytes) + string(jwksOf(jwkOf("new", rsaKey()))),
	} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := v.Reload(); err == nil {
			t.Errorf("%s: got no error", what)
		}
		check("old key after a "+what, "old", nil)
	}
	if err := os.WriteFile(path, jwksOf(jwkOf("new", rsaKey())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Reload(); err != nil {
		t.Fatal(err)
	}
	check("new key after a good file", "new", nil)
	check("old key after a good file", "old", errJWTKey)
}

func TestJWTVerifier_WarnsOfKeysThatCannotBeUsed(t *testing.T) {
	var log bytes.Buffer
	path := writeKeys(t, jwksOf(jwkOf("good", rsaKey()), jwkOf("weak", weakRSA())))
	newVerifier(t, JWTOptions{JWKS: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if want := `level=WARN msg="a key of JWTs cannot be used" error="key 2 has fewer than 2048 bits"`; !strings.Contains(log.String(), want) {
		t.Errorf("got log %q, want %s", log.String(), want)
	}
}

func TestFetch(t *testing.T) {
	keys := string(jwksOf(jwkOf("rsa", rsaKey())))
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, keys) }))
	defer plain.Close()
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	respond := func(path string, status int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	redirect := func(path, to string) { mux.Handle(path, http.RedirectHandler(to, http.StatusFound)) }
	respond("/keys", http.StatusOK, keys)
	respond("/error", http.StatusInternalServerError, keys)
	respond("/large", http.StatusOK, strings.Repeat(" ", maxJWKSBytes)+keys)
	respond("/html", http.StatusOK, "<html>")
	redirect("/moved", "/keys")
	redirect("/loop", "/loop")
	redirect("/plain", plain.URL)
	redirect("/user", strings.Replace(server.URL, "https://", "https://user:hunter2@", 1)+"/keys")

	tests := []struct{ name, url, want string }{
		{"https", server.URL + "/keys", ""},
		{"http on this host", plain.URL, ""},
		{"redirect", server.URL + "/moved", ""},
		{"redirects without end", server.URL + "/loop", "there are more than 3 redirects"},
		{"redirect to http", server.URL + "/plain", "it redirects to a URL without https"},
		{"redirect to a user", server.URL + "/user", "it redirects to a URL that has a user or password in it"},
		{"status", server.URL + "/error", "the answer is 500 Internal Server Error"},
		{"not found", server.URL + "/nothing", "the answer is 404 Not Found"},
		{"too large", server.URL + "/large", "there are more than 1048576 bytes"},
		{"no JWKS", server.URL + "/html", "it is no JWKS"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			logged := make(logLines, 10)
			v := newVerifier(t, JWTOptions{JWKS: test.url, HTTPClient: server.Client(), Logger: slog.New(slog.NewTextHandler(logged, nil))})
			defer v.Close()
			_, err := v.verify(t.Context(), sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, nil, nil))
			line := <-logged
			if test.want == "" {
				if err != nil || !strings.Contains(line, "level=INFO") {
					t.Errorf("got %v and line %s", err, line)
				}
				return
			}
			if !errors.Is(err, errJWTKey) || !strings.Contains(line, "level=WARN") || !strings.Contains(line, test.want) {
				t.Errorf("got %v and line %s, want %s", err, line, test.want)
			}
			if strings.Contains(line, "hunter2") {
				t.Errorf("a password is in the log: %s", line)
			}
		})
	}
}

// A server that is not trusted may not give keys.
func TestFetch_UnknownCA(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	defer server.Close()
	logged := make(logLines, 10)
	v := newVerifier(t, JWTOptions{JWKS: server.URL, Logger: slog.New(slog.NewTextHandler(logged, nil))})
	defer v.Close()
	if line := <-logged; !strings.Contains(line, "x509: certificate signed by unknown authority") {
		t.Errorf("got line %s", line)
	}
}

// logLines is a log whose lines can be waited for.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// idp is an identity provider without a network, so that its time can be faked. It answers what it is set to.
type idp struct {
	mu       sync.Mutex
	requests int
	answer   func(*http.Request) ([]byte, error)
}

func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.requests++
	answer := p.answer
	p.mu.Unlock()
	body, err := answer(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (p *idp) answers(answer func(*http.Request) ([]byte, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// has sets the keys that the provider answers.
func (p *idp) has(ids ...string) {
	var keys []any
	for _, id := range ids {
		keys = append(keys, jwkOf(id, p256Key()))
	}
	p.answers(func(*http.Request) ([]byte, error) { return jwksOf(keys...), nil })
}

func (p *idp) isAway() {
	p.answers(func(*http.Request) ([]byte, error) { return nil, errors.New("connection refused") })
}

// hangs sets that the provider never answers.
func (p *idp) hangs() {
	p.answers(func(r *http.Request) ([]byte, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
}

// wantRequests fails the test if the provider was not asked as often since the last time.
func (p *idp) wantRequests(t *testing.T, want int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests != want {
		t.Errorf("the identity provider was asked %d times, want %d", p.requests, want)
	}
	p.requests = 0
}

func (p *idp) verifier(t *testing.T) *JWTVerifier {
	return newVerifier(t, JWTOptions{
		JWKS: "https://idp.acme.internal/keys", HTTPClient: &http.Client{Transport: p}, Now: time.Now,
	})
}

// wantJWT fails the test if a JWT of a key is not verified as wanted, or not within some time.
func wantJWT(t *testing.T, v *JWTVerifier, id string, want error, within time.Duration) {
	t.Helper()
	began := time.Now()
	_, err := v.verify(t.Context(), sealed(jwt.SigningMethodES256, p256Key(), id, began, nil, nil))
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", id, err, want)
	}
	if took := time.Since(began); took > within {
		t.Errorf("%s took %s, want at most %s", id, took, within)
	}
}

func invented(i int) string { return fmt.Sprint("invented-", i) }
