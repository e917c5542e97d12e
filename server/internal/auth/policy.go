package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"sync/atomic"
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

// What credentials of each kind begin with in the log.
const (
	tokenCredential       = "token "
	certificateCredential = "certificate "
	jwtCredential         = "jwt "
	uidCredential         = "uid "
)

// shortHashBytes is how much of the hash of a token the log has: enough to find it in the policy.
const shortHashBytes = 6

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

// short is the beginning of the hash in hexadecimal.
func (h tokenHash) short() string { return hex.EncodeToString(h[:shortHashBytes]) }

type tokenEntry struct {
	hash      tokenHash
	principal *Principal
	used      atomic.Bool // since the policy was read
}

// firstUse tells whether the token is used for the first time since the policy was read, which it is once.
func (e *tokenEntry) firstUse() bool { return !e.used.Load() && e.used.CompareAndSwap(false, true) }

// knownBy returns the principal as who shows one of its credentials.
func (p *Principal) knownBy(credential string) *Principal {
	known := *p
	known.Credential = credential
	return &known
}

func (p *Policy) addToken(hash tokenHash, principal *Principal) {
	known := principal.knownBy(tokenCredential + hashPrefix + hash.short())
	p.tokens[hash] = &tokenEntry{hash: hash, principal: known}
}

func (p *Policy) addUID(uid uint32, principal *Principal) {
	p.uids[uid] = principal.knownBy(uidCredential + strconv.FormatUint(uint64(uid), 10))
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

// byToken returns the entry of a token, nil where there is none.
func (p *Policy) byToken(token string) *tokenEntry {
	hash := tokenHash(sha256.Sum256([]byte(token)))
	// The time of the look-up may tell how much of a hash is right; but who knows all of it still does not know the token.
	entry := p.tokens[hash]
	if entry == nil || subtle.ConstantTimeCompare(entry.hash[:], hash[:]) != 1 {
		return nil
	}
	return entry
}

// byCertificate returns whose certificate it is by the name in it, nil for nobody's.
func (p *Policy) byCertificate(name string) *Principal {
	return byName(p.certificates, p.anyCertificate, certificatePrefix, certificateCredential, name)
}

// bySubject returns whose JWT it is by its subject, nil for nobody's.
func (p *Policy) bySubject(subject string) *Principal {
	return byName(p.subjects, p.anySubject, jwtPrefix, jwtCredential, subject)
}

func byName(entries map[string]*Principal, others *access, prefix, credential, name string) *Principal {
	if principal := entries[name]; principal != nil {
		return principal
	}
	if others == nil || checkText(name, MaxCredentialBytes) != nil {
		return nil
	}
	return &Principal{Name: prefix + name, Credential: credential + name, access: others}
}

// byUID returns whose process it is, nil for nobody's.
func (p *Policy) byUID(uid uint32) *Principal { return p.uids[uid] }
