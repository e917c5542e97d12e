package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// hashPrefix is what the hash of a token begins with in a policy.
const hashPrefix = "sha256:"

// ParsePolicy reads a policy in YAML:
//
//	principals:
//	  - name: support                    # for the log and the audit trail
//	    tokens: ["sha256:<64 hex>"]      # of each token; two while one replaces the other
//	    certificates: ["spiffe://acme/support", "support.acme.internal"]
//	    jwt_subjects: ["user-42"]
//	    uids: [1000]                     # of processes at a unix socket
//	    grants:
//	      - namespaces: ["acme/support/**", "acme/shared"]
//	        rights: [read, write]
//
// Every key but name may be missing. A credential belongs to one principal. The certificates or the jwt_subjects of
// one principal may be ["*"]: all that are valid and stand nowhere else. What is wrong, unknown or there twice is an
// error that names the line, and no value of tokens, since it may be a token by mistake.
func ParsePolicy(data []byte) (*Policy, error) {
	if len(data) > MaxPolicyBytes {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", len(data), MaxPolicyBytes)
	}
	root, err := parseYAML(data)
	if err != nil {
		return nil, err
	}
	p := parser{policy: newPolicy(), names: map[string]bool{}}
	fields, err := mapping(root, "principals")
	if err != nil {
		return nil, err
	}
	if fields["principals"] == nil {
		return nil, lineError(root, `the key "principals" is missing`)
	}
	entries, err := sequence(fields["principals"], "principals")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if err := p.entry(entry); err != nil {
			return nil, err
		}
	}
	return p.policy, nil
}

// parser reads the entries of a policy.
type parser struct {
	policy *Policy
	names  map[string]bool
}

func (p *parser) entry(node *yaml.Node) error {
	fields, err := mapping(node, "name", "tokens", "certificates", "jwt_subjects", "uids", "grants")
	if err != nil {
		return err
	}
	principal := &Principal{}
	if principal.Name, err = p.name(node, fields["name"]); err != nil {
		return err
	}
	grants, err := parseGrants(fields["grants"])
	if err != nil {
		return err
	}
	principal.access = newAccess(grants)

	if err := p.tokens(fields["tokens"], principal); err != nil {
		return err
	}
	err = namesOf(fields["certificates"], "certificates", certificateCredential, principal, p.policy.certificates,
		&p.policy.anyCertificate)
	if err != nil {
		return err
	}
	err = namesOf(fields["jwt_subjects"], "jwt_subjects", jwtCredential, principal, p.policy.subjects,
		&p.policy.anySubject)
	if err != nil {
		return err
	}
	return p.uids(fields["uids"], principal)
}

func (p *parser) name(entry, node *yaml.Node) (string, error) {
	if node == nil {
		return "", lineError(entry, "a principal has no name")
	}
	name, err := scalar(node, "name")
	if err != nil {
		return "", err
	}
	if err := ValidateName(name); err != nil {
		return "", lineError(node, "%w", err)
	}
	if p.names[name] {
		return "", lineError(node, "principal %q is there twice", name)
	}
	p.names[name] = true
	p.policy.size++
	return name, nil
}

// ValidateName returns an error that names the rule that the name of a principal breaks.
func ValidateName(name string) error {
	if err := checkText(name, MaxNameBytes); err != nil {
		return fmt.Errorf("name %w", err)
	}
	for _, prefix := range []string{certificatePrefix, jwtPrefix} {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("name begins with %q, as only the names of principals without an entry do", prefix)
		}
	}
	return nil
}

// checkText says what is wrong with a text that goes into the log.
func checkText(text string, limit int) error {
	switch {
	case text == "":
		return errors.New("is empty")
	case len(text) > limit:
		return fmt.Errorf("has more than %d bytes", limit)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("has a character that cannot be printed")
	case strings.TrimSpace(text) != text:
		return errors.New("begins or ends with a space")
	}
	return nil
}

func (p *parser) tokens(node *yaml.Node, principal *Principal) error {
	values, err := sequence(node, "tokens")
	if err != nil {
		return err
	}
	for _, value := range values {
		text, err := scalar(value, "tokens")
		if err != nil {
			return err
		}
		hash, ok := parseHash(text)
		if !ok {
			return lineError(value, "principal %q: a value of tokens is not %q and 64 digits of the SHA-256 of a token "+
				"in hexadecimal", principal.Name, hashPrefix)
		}
		if other := p.policy.tokens[hash]; other != nil {
			return lineError(value, "principal %q: a value of tokens is there twice; principal %q has it", principal.Name,
				other.principal.Name)
		}
		p.policy.addToken(hash, principal)
	}
	return nil
}

func parseHash(text string) (hash tokenHash, ok bool) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(hash)) {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(digits))
	return hash, err == nil
}

// namesOf reads the names of certificates or the subjects of JWTs of a principal.
func namesOf(
	node *yaml.Node, key, credential string, principal *Principal, taken map[string]*Principal, others **access,
) error {
	values, err := sequence(node, key)
	if err != nil {
		return err
	}
	for _, value := range values {
		text, err := scalar(value, key)
		if err != nil {
			return err
		}
		if text == anyone {
			switch {
			case len(values) > 1:
				return lineError(value, `principal %q: "*" is not the only value of %s`, principal.Name, key)
			case *others != nil:
				return lineError(value, `principal %q: another principal has "*" in %s`, principal.Name, key)
			}
			*others = principal.access
			return nil
		}
		if err := checkText(text, MaxCredentialBytes); err != nil {
			return lineError(value, "principal %q: a value of %s %w", principal.Name, key, err)
		}
		if other := taken[text]; other != nil {
			return lineError(value, "principal %q: %q is there twice in %s; principal %q has it", principal.Name, text, key,
				other.Name)
		}
		taken[text] = principal.knownBy(credential + text)
	}
	return nil
}

func (p *parser) uids(node *yaml.Node, principal *Principal) error {
	values, err := sequence(node, "uids")
	if err != nil {
		return err
	}
	for _, value := range values {
		// The last number stands for no user.
		uid, err := strconv.ParseUint(value.Value, 10, 32)
		if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || err != nil || uid == noUID {
			return lineError(value, "principal %q: a value of uids is not the number of a user", principal.Name)
		}
		if uid == overflowUID {
			return lineError(value, "principal %q: %d in uids is no user, but what the kernel tells of all who have no number "+
				"here, as those of another container; nothing can be granted to it", principal.Name, uid)
		}
		if other := p.policy.uids[uint32(uid)]; other != nil {
			return lineError(value, "principal %q: %d is there twice in uids; principal %q has it", principal.Name, uid,
				other.Name)
		}
		p.policy.addUID(uint32(uid), principal)
	}
	return nil
}

func parseGrants(node *yaml.Node) ([]grant, error) {
	values, err := sequence(node, "grants")
	if err != nil {
		return nil, err
	}
	var grants []grant
	for _, value := range values {
		fields, err := mapping(value, "namespaces", "rights")
		if err != nil {
			return nil, err
		}
		rights, err := parseRights(value, fields["rights"])
		if err != nil {
			return nil, err
		}
		patterns, err := sequence(fields["namespaces"], "namespaces")
		if err != nil {
			return nil, err
		}
		if len(patterns) == 0 {
			return nil, lineError(value, "a grant has no namespaces")
		}
		for _, node := range patterns {
			text, err := scalar(node, "namespaces")
			if err != nil {
				return nil, err
			}
			p, err := parsePattern(text)
			if err != nil {
				return nil, lineError(node, "pattern %q: %w", text, err)
			}
			grants = append(grants, grant{p, rights})
		}
	}
	return grants, nil
}

func parseRights(grant, node *yaml.Node) (Right, error) {
	values, err := sequence(node, "rights")
	if err != nil {
		return 0, err
	}
	if len(values) == 0 {
		return 0, lineError(grant, "a grant has no rights")
	}
	var rights Right
	for _, value := range values {
		text, err := scalar(value, "rights")
		if err != nil {
			return 0, err
		}
		right, ok := parseRight(text)
		if !ok {
			return 0, lineError(value, "%q is no right; the rights are read, write, history and admin", text)
		}
		rights |= right
	}
	return rights, nil
}
