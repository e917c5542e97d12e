package auth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hashA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hashB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

const examplePolicy = `principals:
  - name: support                       # for logs
    tokens: ["` + hashA + `", "` + hashB + `"]
    certificates: ["spiffe://acme/support", "support.acme.internal"]
    jwt_subjects: ["user-42"]
    uids: [1000, 0]
    grants: &grants
      - namespaces: ["acme/support/**", "acme/shared"]
        rights: [read, write]
  - name: employees
    jwt_subjects: ["*"]
    grants: *grants
  - name: nothing granted
    certificates: ["*"]
`

func TestParsePolicy(t *testing.T) {
	p := mustParse(t, examplePolicy)
	support := p.byUID(1000)
	if support == nil || support.Name != "support" {
		t.Fatalf("got %v for uid 1000", support)
	}
	for name, got := range map[string]*Principal{
		"uid": p.byUID(0), "URI": p.byCertificate("spiffe://acme/support"),
		"DNS name": p.byCertificate("support.acme.internal"), "subject": p.bySubject("user-42"),
	} {
		if got == nil || got.Name != support.Name || got.access != support.access {
			t.Errorf("%s: got %v, want %v", name, got, support)
		}
	}
	if p.byUID(1) != nil || p.byToken("x") != nil {
		t.Error("somebody unknown is somebody")
	}
	other := p.bySubject("user-43")
	if other == nil || other.Name != "jwt:user-43" || other.Credential != "jwt user-43" || !other.May(Write, "acme/shared") {
		t.Errorf("got %v for another subject", other)
	}
	other = p.byCertificate("x")
	if other == nil || other.Name != "certificate:x" || other.Credential != "certificate x" || other.MayAny("acme/shared") {
		t.Errorf("got %v for another certificate", other)
	}
	if diff := cmp.Diff(Kinds{true, true, true, true}, p.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got)\n%s", diff)
	}
}

func TestPolicy_Credentials(t *testing.T) {
	p := mustParse(t, "principals: [{name: p, tokens: ['"+hashOf("test")+"'], certificates: ['spiffe://acme/p', c], "+
		"jwt_subjects: [s], uids: [1000, 0]}]")
	for want, got := range map[string]*Principal{
		"token sha256:9f86d081884c":   p.byToken("test").principal,
		"certificate spiffe://acme/p": p.byCertificate("spiffe://acme/p"),
		"certificate c":               p.byCertificate("c"),
		"jwt s":                       p.bySubject("s"),
		"uid 1000":                    p.byUID(1000),
		"uid 0":                       p.byUID(0),
	} {
		if got.Credential != want {
			t.Errorf("got %q, want %q", got.Credential, want)
		}
	}
	if got := Everyone().Credential; got != "" {
		t.Errorf("got %q for everyone, want nothing", got)
	}
}

func TestPolicy_Kinds(t *testing.T) {
	for text, want := range map[string]Kinds{
		"tokens: [" + hashA + "]": {Tokens: true}, "certificates: [a]": {Certificates: true},
		"certificates: ['*']": {Certificates: true}, "jwt_subjects: [a]": {JWT: true},
		"jwt_subjects: ['*']": {JWT: true}, "uids: [1]": {UIDs: true}, "grants: []": {},
	} {
		if got := mustParse(t, "principals: [{name: p, "+text+"}]").Kinds(); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

// Names that come with a credential go into the log.
func TestPolicy_OthersHaveNamesThatCanBePrinted(t *testing.T) {
	p := mustParse(t, "principals: [{name: p, jwt_subjects: ['*']}]")
	for _, subject := range []string{"", "a\nb", "a\x00", "\xff", "a\u202eb", " a", strings.Repeat("a", MaxCredentialBytes+1)} {
		if got := p.bySubject(subject); got != nil {
			t.Errorf("subject %q is %q", subject, got.Name)
		}
	}
	if got := p.bySubject("Zoë " + strings.Repeat("a", 100)); got == nil {
		t.Error("a good subject is nobody")
	}
}

const entry = "principals:\n- name: p\n  "

var badPolicies = []struct{ name, text, want string }{
	{"empty", "", "the file is empty"},
	{"comment", "# nobody", "the file is empty"},
	{"no YAML", "principals: [", "yaml: line 1: did not find expected node content"},
	{"list", "- name: p", "line 1: here must be the keys principals"},
	{"null", "---\n", "line 2: here must be the keys principals"},
	{"no key", "{}", `line 1: the key "principals" is missing`},
	{"other key", "principals: []\npolicies: []", `line 2: unknown key "policies"; the keys are principals`},
	{"no list", "principals: support", "line 1: principals is no list"},
	{"null list", "principals:", "line 1: principals is no list"},
	{"two documents", "principals: []\n---\nprincipals: []", "the file holds more than one document"},
	{
		"entry is a text", "principals:\n- support",
		"line 2: here must be the keys name, tokens, certificates, jwt_subjects, uids, grants",
	},
	{"no name", "principals:\n- uids: [1]", "line 2: a principal has no name"},
	{"empty name", "principals:\n- name: ''", "line 2: name is empty"},
	{"number for a name", "principals:\n- name: 007", "line 2: a value of name is no text; write it in quotes"},
	{"name with a line", "principals:\n- name: \"a\\nb\"", "line 2: name has a character that cannot be printed"},
	{"name with a space", "principals:\n- name: ' a'", "line 2: name begins or ends with a space"},
	{"long name", "principals:\n- name: " + strings.Repeat("a", 129), "line 2: name has more than 128 bytes"},
	{
		"name of others", "principals:\n- name: 'jwt:a'",
		`line 2: name begins with "jwt:", as only the names of principals without an entry do`,
	},
	{"name twice", entry + "uids: [1]\n- name: p", `line 4: principal "p" is there twice`},
	{
		"key of an entry", entry + "token: [x]",
		`line 3: unknown key "token"; the keys are name, tokens, certificates, jwt_subjects, uids, grants`,
	},
	{"key twice", entry + "uids: [1]\n  uids: [2]", `line 4: key "uids" is there twice`},
	{
		"merged key", "principals:\n- &p {name: a}\n- {<<: *p, name: b}",
		`line 3: unknown key "<<"; the keys are name, tokens, certificates, jwt_subjects, uids, grants`,
	},
	{"short hash", entry + "tokens: ['sha256:abcd']", badToken},
	{"no digits", entry + "tokens: ['sha256:" + strings.Repeat("x", 64) + "']", badToken},
	{"other hash", entry + "tokens: ['sha512:" + strings.Repeat("a", 64) + "']", badToken},
	{"long hash", entry + "tokens: ['" + hashA + "aa']", badToken},
	{
		"token twice", entry + "tokens: [" + hashA + "]\n- name: q\n  tokens: [" + hashB + ",\n    " + hashA + "]",
		`line 6: principal "q": a value of tokens is there twice; principal "p" has it`,
	},
	{
		"token twice in another case", entry + "tokens: [" + hashA + ", sha256:" + strings.Repeat("A", 64) + "]",
		`line 3: principal "p": a value of tokens is there twice; principal "p" has it`,
	},
	{
		"certificate twice", entry + "certificates: [a]\n- name: q\n  certificates: [a]",
		`line 5: principal "q": "a" is there twice in certificates; principal "p" has it`,
	},
	{"empty certificate", entry + "certificates: ['']", `line 3: principal "p": a value of certificates is empty`},
	{
		"long certificate", entry + "certificates: [" + strings.Repeat("a", 257) + "]",
		`line 3: principal "p": a value of certificates has more than 256 bytes`,
	},
	{
		"subject twice", entry + "jwt_subjects: [a, a]",
		`line 3: principal "p": "a" is there twice in jwt_subjects; principal "p" has it`,
	},
	{"star beside others", entry + "jwt_subjects: [a, '*']", `line 3: principal "p": "*" is not the only value of jwt_subjects`},
	{
		"two stars", entry + "certificates: ['*']\n- name: q\n  certificates: ['*']",
		`line 5: principal "q": another principal has "*" in certificates`,
	},
	{"subject is a number", entry + "jwt_subjects: [42]", "line 3: a value of jwt_subjects is no text; write it in quotes"},
	{"uid is a text", entry + "uids: ['0']", `line 3: principal "p": a value of uids is not the number of a user`},
	{"uid below", entry + "uids: [-1]", `line 3: principal "p": a value of uids is not the number of a user`},
	{"uid of nobody", entry + "uids: [4294967295]", `line 3: principal "p": a value of uids is not the number of a user`},
	{
		"uid of all who have none", entry + "uids: [65534]", `line 3: principal "p": 65534 in uids is no user, but what the ` +
			`kernel tells of all who have no number here, as those of another container; nothing can be granted to it`,
	},
	{
		"uid twice", entry + "uids: [1]\n- name: q\n  uids: [1]",
		`line 5: principal "q": 1 is there twice in uids; principal "p" has it`,
	},
	{
		"key of a grant", entry + "grants: [{namespace: [a], rights: [read]}]",
		`line 3: unknown key "namespace"; the keys are namespaces, rights`,
	},
	{"no namespaces", entry + "grants: [{rights: [read]}]", "line 3: a grant has no namespaces"},
	{"no rights", entry + "grants: [{namespaces: [a], rights: []}]", "line 3: a grant has no rights"},
	{
		"right", entry + "grants:\n  - namespaces: [a]\n    rights: [read, root]",
		`line 5: "root" is no right; the rights are read, write, history and admin`,
	},
	{
		"pattern is a star without quotes", entry + "grants: [{namespaces: [**], rights: [read]}]",
		"yaml: line 3: did not find expected alphabetic or numeric character",
	},
}

const badToken = `line 3: principal "p": a value of tokens is not "sha256:" and 64 digits of the SHA-256 of a token in hexadecimal`

func TestParsePolicy_Errors(t *testing.T) {
	for _, test := range badPolicies {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParsePolicy([]byte(test.text))
			if err == nil {
				t.Fatal("got no error")
			}
			if got := err.Error(); got != test.want {
				t.Errorf("\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestParsePolicy_BadPatterns(t *testing.T) {
	const grammar = `it matches no namespace: namespace `
	tests := map[string]string{
		"":                       grammar + "is empty",
		"/**":                    grammar + "is empty",
		"**/a":                   `"**" stands only at the end`,
		"a/**/b":                 `"**" stands only at the end`,
		"a**":                    `"**" stands only at the end`,
		"a/b**":                  `"**" stands only at the end`,
		"***":                    `"**" stands only at the end`,
		"**/**":                  `"**" stands only at the end`,
		"a/":                     grammar + "ends with '/'",
		"a//**":                  grammar + "ends with '/'",
		"/a":                     grammar + "has a segment",
		"a//b":                   grammar + "has a segment",
		"-*":                     grammar + "has a segment",
		"../a":                   grammar + "has a segment",
		"A":                      grammar + "has a character",
		"a?":                     grammar + "has a character",
		"a b":                    grammar + "has a character",
		"a\x00":                  grammar + "has a character",
		strings.Repeat("a", 201): grammar + "is too long",
	}
	for pattern, want := range tests {
		t.Run(pattern, func(t *testing.T) {
			text := fmt.Sprintf("principals:\n- name: p\n  grants: [{namespaces: [%q], rights: [read]}]", pattern)
			_, err := ParsePolicy([]byte(text))
			if want := fmt.Sprintf("line 3: pattern %q: %s", pattern, want); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("\ngot  %v\nwant %s", err, want)
			}
		})
	}
}

// Who puts a token where its hash belongs finds it in no log.
func TestParsePolicy_ErrorsHoldNoToken(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"tokens: [" + secret + "]", "tokens: " + secret, "tokens: {" + secret + ": 1}", "tokens: [[" + secret + "]]",
		"tokens: ['sha256:" + secret + "']", "tokens: [" + secret, "tokens: ['" + secret + "\"]",
	} {
		_, err := ParsePolicy([]byte(entry + text))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestParsePolicy_TooLarge(t *testing.T) {
	_, err := ParsePolicy(make([]byte, MaxPolicyBytes+1))
	if want := "the file has 16777217 bytes, more than 16777216"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
