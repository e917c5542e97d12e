package auth

import (
	"crypto/sha256"
	"crypto/subtle"
)

// Limits of a policy.
const (
	MaxPolicyBytes     = 16 << 20 // of the file
	MaxNameBytes       = 128      // of the name of a principal
	MaxCredentialBytes = 256      // of the name in a certificate and of the subject of a JWT
)

// What the names of principals begin with that have no entry of their own.
const (
	certificatePrefix = "certificate:"
	jwtPrefix         = "jwt:"
)

// anyone stands in a policy for every certificate, or every JWT, without an entry of its own.
const anyone = "*"

// Policy says who is who and who may do what. ParsePolicy makes it; it never changes.
type Policy struct {
	size int // entries

	tokens       map[tokenHash]*tokenEntry
	certificates map[string]*Principal
	subjects     map[string]*Principal // of JWTs
	uids         map[uint32]*Principal

	anyCertificate *access // nil: those without an entry are refused
	anySubject     *access
}

type tokenHash [sha256.Size]byte

type tokenEntry struct {
	hash      tokenHash
	principal *Principal
}

func newPolicy() *Policy {
	return &Policy{
		tokens:       map[tokenHash]*tokenEntry{},
		certificates: map[string]*Principal{},
		subjects:     map[string]*Principal{},
		uids:         map[uint32]*Principal{},
	}
}

// Len returns how many principals have an entry.
func (p *Policy) Len() int { return p.size }

// Kinds tells which kinds of credentials there are.
type Kinds struct {
	Tokens, Certificates, JWT, UIDs bool
}

// Kinds returns the kinds of credentials that the policy names, so that one that nothing else is configured for can
// be complained about.
func (p *Policy) Kinds() Kinds {
	return Kinds{
		Tokens:       len(p.tokens) > 0,
		Certificates: len(p.certificates) > 0 || p.anyCertificate != nil,
		JWT:          len(p.subjects) > 0 || p.anySubject != nil,
		UIDs:         len(p.uids) > 0,
	}
}

// byToken returns whose token it is, nil for nobody's.
func (p *Policy) byToken(token string) *Principal {
	hash := tokenHash(sha256.Sum256([]byte(token)))
	// The time of the look-up may tell how much of a hash is right; but who knows all of it still does not know the token.
	entry := p.tokens[hash]
	if entry == nil || subtle.ConstantTimeCompare(entry.hash[:], hash[:]) != 1 {
		return nil
	}
	return entry.principal
}

// byCertificate returns whose certificate it is by the name in it, nil for nobody's.
func (p *Policy) byCertificate(name string) *Principal {
	return byName(p.certificates, p.anyCertificate, certificatePrefix, name)
}

// bySubject returns whose JWT it is by its subject, nil for nobody's.
func (p *Policy) bySubject(subject string) *Principal {
	return byName(p.subjects, p.anySubject, jwtPrefix, subject)
}

func byName(entries map[string]*Principal, others *access, prefix, name string) *Principal {
	if principal := entries[name]; principal != nil {
		return principal
	}
	if others == nil || checkText(name, MaxCredentialBytes) != nil {
		return nil
	}
	return &Principal{Name: prefix + name, access: others}
}

// byUID returns whose process it is, nil for nobody's.
func (p *Policy) byUID(uid uint32) *Principal { return p.uids[uid] }
