package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// must returns a value that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Keys are made once, since RSA takes long.
var (
	rsaKey    = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherRSA  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	weakRSA   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) })
	p256Key   = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	p384Key   = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) })
	ed25519Of = sync.OnceValue(func() ed25519.PrivateKey { _, key, _ := ed25519.GenerateKey(rand.Reader); return key })
)

// jwkOf is the public part of a key as it stands in a JWKS.
func jwkOf(id string, key crypto.Signer, options ...func(*jwkset.JWKMetadataOptions)) any {
	o := jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}}
	for _, option := range options {
		option(&o.Metadata)
	}
	return must(jwkset.NewJWKFromKey(key.Public(), o)).Marshal()
}

func jwksOf(keys ...any) []byte {
	return must(json.Marshal(map[string]any{"keys": keys}))
}

func allKeys() []byte {
	return jwksOf(jwkOf("rsa", rsaKey()), jwkOf("p256", p256Key()), jwkOf("p384", p384Key()), jwkOf("ed", ed25519Of()),
		jwkOf("rs256", otherRSA(), func(o *jwkset.JWKMetadataOptions) { o.ALG = jwkset.AlgRS256 }))
}

func writeKeys(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// jwtNow is the time of the tests of JWTs.
var jwtNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	testIssuer   = "https://idp.acme.internal"
	testAudience = "memoryd"
)

func newVerifier(t testing.TB, opts JWTOptions) *JWTVerifier {
	t.Helper()
	if opts.JWKS == "" {
		opts.JWKS = writeKeys(t, allKeys())
	}
	opts.Issuer, opts.Audience = testIssuer, testAudience
	if opts.Now == nil {
		opts.Now = func() time.Time { return jwtNow }
	}
	v, err := NewJWTVerifier(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// goodClaims are those of a JWT that is good at a time.
func goodClaims(now time.Time) jwt.MapClaims {
	return jwt.MapClaims{
		"sub": "user-42", "iss": testIssuer, "aud": testAudience, "exp": now.Add(time.Minute).Unix(),
		"iat": now.Unix(), "nbf": now.Unix(),
	}
}

// sealed is a signed JWT of a key, with claims and headers that are changed; nil takes one away.
func sealed(method jwt.SigningMethod, key any, id string, now time.Time, claims, header map[string]any) string {
	token := jwt.NewWithClaims(method, goodClaims(now))
	if id != "" {
		token.Header["kid"] = id
	}
	for name, value := range claims {
		change(token.Claims.(jwt.MapClaims), name, value)
	}
	for name, value := range header {
		change(token.Header, name, value)
	}
	return must(token.SignedString(key))
}

func change(m map[string]any, name string, value any) {
	if value == nil {
		delete(m, name)
	} else {
		m[name] = value
	}
}

type object = map[string]any

const jwtPolicy = `principals:
- {name: known, jwt_subjects: [user-42]}
- {name: support, tokens: [TOKEN]}
`

func TestAuthenticate_JWT(t *testing.T) {
	v := newVerifier(t, JWTOptions{})
	a := New(Options{Policy: mustParse(t, strings.ReplaceAll(jwtPolicy, "TOKEN", hashOf("a.b.c"))), JWT: v})
	rs256 := func(claims, header object) string {
		return sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, claims, header)
	}
	good := rs256(nil, nil)
	parts := strings.Split(good, ".")
	public := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	at := func(d time.Duration) int64 { return jwtNow.Add(d).Unix() }

	tests := []struct {
		name  string
		token string
		cause error // nil: it is good
	}{
		{"RS256", good, nil},
		{"RS512", sealed(jwt.SigningMethodRS512, rsaKey(), "rsa", jwtNow, nil, nil), nil},
		{"PS256", sealed(jwt.SigningMethodPS256, rsaKey(), "rsa", jwtNow, nil, nil), nil},
		{"ES256", sealed(jwt.SigningMethodES256, p256Key(), "p256", jwtNow, nil, nil), nil},
		{"ES384", sealed(jwt.SigningMethodES384, p384Key(), "p384", jwtNow, nil, nil), nil},
		{"EdDSA", sealed(jwt.SigningMethodEdDSA, ed25519Of(), "ed", jwtNow, nil, nil), nil},
		{"no key ID", sealed(jwt.SigningMethodRS256, rsaKey(), "", jwtNow, nil, nil), nil},
		{"no key ID, ES384", sealed(jwt.SigningMethodES384, p384Key(), "", jwtNow, nil, nil), nil},
		{"a token that looks like a JWT", "a.b.c", nil},

		{"forged signature", parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256)), errJWTSignature},
		{"claims of another", parts[0] + "." + strings.Split(rs256(object{"sub": "x"}, nil), ".")[1] + "." + parts[2], errJWTSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", errJWTSignature},
		{"key ID unknown", sealed(jwt.SigningMethodRS256, rsaKey(), "new", jwtNow, nil, nil), errJWTKey},
		{"key ID of another key", sealed(jwt.SigningMethodRS256, rsaKey(), "rs256", jwtNow, nil, nil), errJWTSignature},
		{"key ID of a key of another type", sealed(jwt.SigningMethodRS256, rsaKey(), "p256", jwtNow, nil, nil), errJWTKeyType},
		{"key ID of a key on another curve", sealed(jwt.SigningMethodES256, p256Key(), "p384", jwtNow, nil, nil), errJWTKeyType},
		{"algorithm that is not the key's", sealed(jwt.SigningMethodRS512, otherRSA(), "rs256", jwtNow, nil, nil), errJWTKeyType},
		{"key ID is a number", rs256(nil, object{"kid": 1}), errJWT},
		{"key ID is long", rs256(nil, object{"kid": strings.Repeat("a", 257)}), errJWT},
		{"another key without an ID", sealed(jwt.SigningMethodES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "", jwtNow, nil, nil), errJWTSignature},

		{"alg none", sealed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "rsa", jwtNow, nil, nil), errJWTSignature},
		{"alg None", unsigned("None"), errJWTSignature},
		{"alg missing", unsigned(nil), errJWTSignature},
		{"alg is a number", unsigned(1), errJWTSignature},
		{"HS256 with the public key", sealed(jwt.SigningMethodHS256, public, "rsa", jwtNow, nil, nil), errJWTSignature},
		{"HS256 with the public key in PEM", sealed(jwt.SigningMethodHS256, publicPEM, "rsa", jwtNow, nil, nil), errJWTSignature},
		{"HS256 with the modulus", sealed(jwt.SigningMethodHS256, rsaKey().N.Bytes(), "rsa", jwtNow, nil, nil), errJWTSignature},
		{"HS256 without a key ID", sealed(jwt.SigningMethodHS256, public, "", jwtNow, nil, nil), errJWTSignature},

		{"expired", rs256(object{"exp": at(-30 * time.Second)}, nil), errJWTExpired},
		{"expired within the leeway", rs256(object{"exp": at(-29 * time.Second)}, nil), nil},
		{"no expiry", rs256(object{"exp": nil}, nil), errJWTClaims},
		{"expiry zero", rs256(object{"exp": 0}, nil), errJWTClaims},
		{"expiry is a text", rs256(object{"exp": "never"}, nil), errJWTClaims},
		{"not yet valid", rs256(object{"nbf": at(31 * time.Second)}, nil), errJWTEarly},
		{"not yet valid within the leeway", rs256(object{"nbf": at(30 * time.Second)}, nil), nil},
		{"no nbf and iat", rs256(object{"nbf": nil, "iat": nil}, nil), nil},
		{"issued in the future", rs256(object{"iat": at(31 * time.Second)}, nil), errJWTEarly},

		{"another issuer", rs256(object{"iss": testIssuer + "/"}, nil), errJWTIssuer},
		{"no issuer", rs256(object{"iss": nil}, nil), errJWTClaims},
		{"another audience", rs256(object{"aud": "memoryd2"}, nil), errJWTAudience},
		{"several audiences", rs256(object{"aud": []string{"x", testAudience}}, nil), nil},
		{"other audiences", rs256(object{"aud": []string{"x", "memory"}}, nil), errJWTAudience},
		{"no audience", rs256(object{"aud": nil}, nil), errJWTClaims},
		{"no subject", rs256(object{"sub": nil}, nil), errJWTClaims},
		{"empty subject", rs256(object{"sub": ""}, nil), errJWTClaims},
		{"subject is a number", rs256(object{"sub": 42}, nil), errJWTClaims},
		{"subject in another case of the name", rs256(object{"sub": "x", "SUB": "user-42"}, nil), errSubject},
		{"another subject", rs256(object{"sub": "user-43"}, nil), errSubject},

		{"times at their ends", rs256(object{"exp": 253402300799, "nbf": 0, "iat": 0}, nil), nil},
		{"expiry beyond all times", rs256(object{"exp": 1e300}, nil), errJWTClaims},
		{"expiry in the year 10000", rs256(object{"exp": 253402300800}, nil), errJWTClaims},
		{"not before beyond all times", rs256(object{"nbf": 1e300}, nil), errJWTClaims},
		{"not before that overflows", rs256(object{"nbf": 9.3e18}, nil), errJWTClaims},
		{"not before all times", rs256(object{"nbf": -1}, nil), errJWTClaims},
		{"issued beyond all times", rs256(object{"iat": 1e300}, nil), errJWTClaims},

		{"names that are there once", signed(`{"alg":"RS256","kid":"rsa"}`, claimsWith(`"x":{"sub":"x","sub":["x",{}]}`)), nil},
		{"claim twice", signed(`{"alg":"RS256","kid":"rsa"}`, claimsWith(`"sub":"user-42"`)), errJWTTwice},
		{"claim twice, escaped", signed(`{"alg":"RS256","kid":"rsa"}`, claimsWith(`"s\u0075b":"user-42"`)), errJWTTwice},
		{"unknown claim twice", signed(`{"alg":"RS256","kid":"rsa"}`, claimsWith(`"x":{},"x":[]`)), errJWTTwice},
		{"header twice", signed(`{"alg":"RS256","kid":"none","kid":"rsa"}`, claimsWith(`"x":1`)), errJWTTwice},
		{"algorithm twice", signed(`{"alg":"none","alg":"RS256","kid":"rsa"}`, claimsWith(`"x":1`)), errJWTTwice},

		{"typ at+jwt", rs256(nil, object{"typ": "at+jwt"}), nil},
		{"typ application/at+JWT", rs256(nil, object{"typ": "application/at+JWT"}), nil},
		{"no typ", rs256(nil, object{"typ": nil}), nil},
		{"typ logout+jwt", rs256(nil, object{"typ": "logout+jwt"}), errJWTType},
		{"typ is a number", rs256(nil, object{"typ": 1}), errJWTType},
		{"crit", rs256(nil, object{"crit": []string{"exp"}}), errJWTCritical},
		{"crit without names", rs256(nil, object{"crit": []string{}}), errJWTCritical},

		{"no JSON", "YQ.YQ.YQ", errJWT},
		{"no base64", "a.a.a", errJWT},
		{"four parts", good + ".a", errToken},
		{"two parts", parts[0] + "." + parts[1], errToken},
		{"base64 with other last bits", good[:len(good)-1] + nextLetter(good[len(good)-1]), errJWT},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := a.Authenticate(call(t.Context(), "Bearer "+test.token))
			if test.cause != nil {
				wantCause(t, p, err, test.cause)
				return
			}
			want := "known"
			if test.token == "a.b.c" {
				want = "support"
			}
			wantName(t, p, err, want)
		})
	}
}

// claimsWith are the claims of a JWT that is good, and one more member.
func claimsWith(member string) string {
	return strings.TrimSuffix(string(must(json.Marshal(goodClaims(jwtNow)))), "}") + "," + member + "}"
}

// signed is a JWT of two texts.
func signed(header, claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	return text + "." + encode(must(jwt.SigningMethodRS256.Sign(text, rsaKey())))
}

// unsigned is a JWT with an algorithm and no signature.
func unsigned(algorithm any) string {
	header := object{"typ": "JWT", "kid": "rsa"}
	change(header, "alg", algorithm)
	encode := base64.RawURLEncoding.EncodeToString
	return encode(must(json.Marshal(header))) + "." + encode(must(json.Marshal(goodClaims(jwtNow)))) + "."
}

// nextLetter is a letter of base64 whose last bit is another one.
func nextLetter(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}

// A JWT that names no key is tried with those that fit.
func TestJWTVerifier_NoKeyFits(t *testing.T) {
	v := newVerifier(t, JWTOptions{JWKS: writeKeys(t, jwksOf(jwkOf("p384", p384Key()), jwkOf("rsa", rsaKey())))})
	_, err := v.verify(t.Context(), sealed(jwt.SigningMethodES256, p256Key(), "", jwtNow, nil, nil))
	if !errors.Is(err, errJWTKey) {
		t.Errorf("got %v, want %v", err, errJWTKey)
	}
}

func TestAuthenticate_JWTIsOff(t *testing.T) {
	a := New(Options{Policy: mustParse(t, "principals: [{name: p, jwt_subjects: ['*']}]")})
	p, err := a.Authenticate(call(t.Context(), "Bearer "+sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, nil, nil)))
	wantCause(t, p, err, errToken)
}

func TestAuthenticate_OtherSubjects(t *testing.T) {
	policy := "principals: [{name: p, jwt_subjects: ['*'], grants: [{namespaces: [a], rights: [read]}]}, {name: q, jwt_subjects: [user-42]}]"
	a := New(Options{Policy: mustParse(t, policy), JWT: newVerifier(t, JWTOptions{})})
	for subject, want := range map[string]string{"user-42": "q", "user-43": "jwt:user-43"} {
		token := sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, object{"sub": subject}, nil)
		p, err := a.Authenticate(call(t.Context(), "Bearer "+token))
		wantName(t, p, err, want)
		if got, want := p.May(Read, "a"), subject == "user-43"; got != want {
			t.Errorf("%s: May is %t, want %t", subject, got, want)
		}
	}
}

func TestAuthenticate_JWTAlgorithmsAndLeeway(t *testing.T) {
	v := newVerifier(t, JWTOptions{Algorithms: []string{"ES256"}, Leeway: time.Minute})
	if _, err := v.verify(t.Context(), sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, nil, nil)); !errors.Is(err, errJWTSignature) {
		t.Errorf("RS256: got %v, want %v", err, errJWTSignature)
	}
	late := object{"exp": jwtNow.Add(-59 * time.Second).Unix()}
	if _, err := v.verify(t.Context(), sealed(jwt.SigningMethodES256, p256Key(), "p256", jwtNow, late, nil)); err != nil {
		t.Errorf("ES256 within the leeway: got %v", err)
	}
}

func TestNewJWTVerifier_Errors(t *testing.T) {
	keys := writeKeys(t, allKeys())
	fifo := filepath.Join(t.TempDir(), "jwks.fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	good := JWTOptions{JWKS: keys, Issuer: "i", Audience: "a"}
	tests := []struct {
		name   string
		change func(*JWTOptions)
		want   string
	}{
		{"no keys", func(o *JWTOptions) { o.JWKS = "" }, "JWTs: no file or URL of keys is given"},
		{"no issuer", func(o *JWTOptions) { o.Issuer = "" }, "JWTs: no issuer is given"},
		{"no audience", func(o *JWTOptions) { o.Audience = "" }, "JWTs: no audience is given"},
		{"none", func(o *JWTOptions) { o.Algorithms = []string{"none"} }, `JWTs: algorithm "none" is not accepted`},
		{"HS256", func(o *JWTOptions) { o.Algorithms = []string{"RS256", "HS256"} }, `JWTs: algorithm "HS256" is not accepted`},
		{"leeway", func(o *JWTOptions) { o.Leeway = time.Hour }, "JWTs: the leeway is 1h0m0s; it must be between 0 and 5m0s"},
		{"below", func(o *JWTOptions) { o.Leeway = -1 }, "JWTs: the leeway is -1ns; it must be between 0 and 5m0s"},
		{
			"http", func(o *JWTOptions) { o.JWKS = "http://idp.acme.internal/keys" },
			"JWTs: the URL of the keys is without https, which only this host may be",
		},
		{
			"password", func(o *JWTOptions) { o.JWKS = "https://user:hunter2@idp/keys" },
			"JWTs: the URL of the keys has a user or password in it",
		},
		{"no host", func(o *JWTOptions) { o.JWKS = "https:///keys" }, "JWTs: the URL of the keys has no host"},
		{"malformed", func(o *JWTOptions) { o.JWKS = "https://a b/" }, "JWTs: the URL of the keys is malformed"},
		{
			"a FIFO", func(o *JWTOptions) { o.JWKS = fifo }, // which nobody would ever write
			"read keys of JWTs: read " + fifo + ": it must be a regular file, since it is read again",
		},
		{"no file", func(o *JWTOptions) { o.JWKS = keys + "x" }, "read keys of JWTs: open " + keys + "x: no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := good
			test.change(&opts)
			_, err := NewJWTVerifier(t.Context(), opts)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
