package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// The model of the rights: what a pattern matches, by trying all there is.

func modelGlob(pattern, text string) bool {
	switch {
	case pattern == "" || text == "":
		return strings.Trim(pattern, "*") == "" && text == ""
	case pattern[0] == '*':
		return modelGlob(pattern[1:], text) || modelGlob(pattern, text[1:])
	}
	return pattern[0] == text[0] && modelGlob(pattern[1:], text[1:])
}

func modelMatches(pattern, name []string) bool {
	switch {
	case len(pattern) == 1 && pattern[0] == "**":
		return len(name) > 0
	case len(pattern) == 0 || len(name) == 0:
		return len(pattern) == len(name)
	}
	return modelGlob(pattern[0], name[0]) && modelMatches(pattern[1:], name[1:])
}

func modelMay(grants []modelGrant, right, name string) bool {
	return slices.ContainsFunc(grants, func(g modelGrant) bool {
		return (g.right == right || g.right == "write" && right == "read") &&
			modelMatches(strings.Split(g.pattern, "/"), strings.Split(name, "/"))
	})
}

type modelGrant struct{ pattern, right string }

// pick makes text that is often a pattern or a name.
func pick(data []byte) string {
	alphabet := []string{"a", "b", "/", "*", "/**", "-", "a/", "**"}
	var b strings.Builder
	for _, c := range data[:min(len(data), 16)] {
		b.WriteString(alphabet[int(c)%len(alphabet)])
	}
	return b.String()
}

func FuzzRights(f *testing.F) {
	f.Add([]byte("\x00"), []byte("\x00\x04"), []byte("\x03"), uint8(0), uint8(1), uint8(0), []byte("\x00\x02\x01"))
	f.Add([]byte("\x07"), []byte("\x03\x01\x03"), []byte("\x06\x03"), uint8(3), uint8(0x4e), uint8(1), []byte("\x00\x01"))
	f.Add([]byte("\x06\x03\x04"), []byte("\x00"), []byte("\x06\x00"), uint8(2), uint8(0xff), uint8(0), []byte("\x06\x06\x00"))
	rights := []string{"read", "write", "history", "admin"}
	f.Fuzz(func(t *testing.T, first, second, third []byte, right, granted, who uint8, named []byte) {
		name := pick(named)
		if memory.ValidateNamespace(name) != nil {
			t.Skip()
		}
		// Two principals; the first has two grants and the second the third.
		var grants []modelGrant
		for i, data := range [][]byte{first, second, third} {
			g := modelGrant{pick(data), rights[granted>>(2*i)&3]}
			if _, err := parsePattern(g.pattern); err != nil {
				t.Skip()
			}
			grants = append(grants, g)
		}
		owned := [][]modelGrant{grants[:2], grants[2:]}
		var b strings.Builder
		b.WriteString("principals:\n")
		for i, grants := range owned {
			hash := sha256.Sum256(fmt.Appendf(nil, "token-%d", i))
			fmt.Fprintf(&b, "- name: p%d\n  tokens: [\"sha256:%s\"]\n  grants:\n", i, hex.EncodeToString(hash[:]))
			for _, g := range grants {
				fmt.Fprintf(&b, "  - {namespaces: [%q], rights: [%s]}\n", g.pattern, g.right)
			}
		}
		a := New(Options{Policy: mustParse(t, b.String())})
		who %= 2
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", fmt.Sprint("Bearer token-", who)))
		p, err := a.Authenticate(ctx)
		if err != nil {
			t.Fatal(err)
		}

		i := int(right) % len(rights)
		r, want := Read<<i, modelMay(owned[who], rights[i], name)
		if got := p.May(r, name); got != want {
			t.Errorf("May(%s, %q) is %t, want %t, with %v", r, name, got, want, owned[who])
		}
		if p.MayEverywhere(r) && !want {
			t.Errorf("%s is granted everywhere and not on %q, with %v", r, name, owned[who])
		}
		anyRight := slices.ContainsFunc(rights, func(r string) bool { return modelMay(owned[who], r, name) })
		if got := p.MayAny(name); got != anyRight {
			t.Errorf("MayAny(%q) is %t, want %t, with %v", name, got, anyRight, owned[who])
		}
		if n := rangesWith(p.Ranges(), name); n > 1 || anyRight && n == 0 {
			t.Errorf("%q is in %d of %v, with %v", name, n, p.Ranges(), owned[who])
		}
	})
}

func rangesWith(ranges []Range, name string) (n int) {
	for _, r := range ranges {
		if r.Exact && name == r.Prefix || !r.Exact && strings.HasPrefix(name, r.Prefix) {
			n++
		}
	}
	return n
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(examplePolicy))
	for _, test := range badPolicies {
		f.Add([]byte(test.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v and error %v", p, err)
		}
		if err != nil {
			return
		}
		all := []*access{p.anyCertificate, p.anySubject}
		for _, entry := range p.tokens {
			all = append(all, entry.principal.access)
		}
		for _, principals := range []map[string]*Principal{p.certificates, p.subjects} {
			for name, principal := range principals {
				if ValidateName(principal.Name) != nil || checkText(name, MaxCredentialBytes) != nil {
					t.Errorf("principal %q or its %q is not valid", principal.Name, name)
				}
				all = append(all, principal.access)
			}
		}
		for _, a := range all {
			if a == nil {
				continue
			}
			for _, g := range a.grants {
				if _, err := parsePattern(g.pattern.text); err != nil || g.rights == 0 || g.rights > allRights {
					t.Errorf("grant %v is not valid: %v", g, err)
				}
			}
		}
	})
}
