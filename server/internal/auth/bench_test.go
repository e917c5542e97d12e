package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// manyPrincipals is a policy of n principals with a token each, such as token-7.
func manyPrincipals(b *testing.B, n int) *Policy {
	var text strings.Builder
	text.WriteString("principals:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {name: p%d, tokens: [%q], grants: [{namespaces: [acme/p%d/**], rights: [write]}]}\n",
			i, hashOf(fmt.Sprint("token-", i)), i)
	}
	return mustParse(b, text.String())
}

func BenchmarkAuthenticate_Token(b *testing.B) {
	a := New(Options{Policy: manyPrincipals(b, 10_000)})
	ctx := call(from(b.Context(), "192.0.2.1:1"), "Bearer token-5000")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthenticate_JWT(b *testing.B) {
	policy := mustParse(b, "principals: [{name: p, jwt_subjects: ['*']}]")
	a := New(Options{Policy: policy, JWT: newVerifier(b, JWTOptions{})})
	for _, bench := range []struct{ name, token string }{
		{"RS256", sealed(jwt.SigningMethodRS256, rsaKey(), "rsa", jwtNow, nil, nil)},
		{"ES256", sealed(jwt.SigningMethodES256, p256Key(), "p256", jwtNow, nil, nil)},
		{"EdDSA", sealed(jwt.SigningMethodEdDSA, ed25519Of(), "ed", jwtNow, nil, nil)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ctx := call(b.Context(), "Bearer "+bench.token)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Authenticate(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAuthenticate_Certificate(b *testing.B) {
	ca := newIssuer(b, nil)
	leaf := ca.client(b, withURI(b, "spiffe://acme/support")).Leaf
	a := newCertificateAuthenticator(b, time.Now)
	a.SetClientCAs(ca.pool())
	ctx := shows(b.Context(), leaf)
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.Authenticate(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			a.SetClientCAs(ca.pool())
			if _, err := a.Authenticate(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPrincipal_May(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var patterns []string
			for i := range n {
				patterns = append(patterns, fmt.Sprintf("acme/team-%d/user-*/**", i))
			}
			text := "principals: [{name: p, uids: [1], grants: [{rights: [write], namespaces: [" +
				strings.Join(patterns, ", ") + "]}]}]"
			p, name := mustParse(b, text).byUID(1), fmt.Sprintf("acme/team-%d/user-42/notes", n-1)
			b.ReportAllocs()
			for b.Loop() {
				if !p.May(Read, name) {
					b.Fatal("the last pattern does not match")
				}
			}
		})
	}
}

func BenchmarkParsePolicy(b *testing.B) {
	for b.Loop() {
		manyPrincipals(b, 10_000)
	}
}
