package screen

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zricethezav/gitleaks/v8/config"
)

// What looks like a secret is put together here, so that it does not look like one to those who search sources.
var (
	githubToken  = "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"
	awsKey       = "AKI" + "AQ3ZK7P2MXW5RTL4B"
	memorydToken = "memoryd_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX-_aB123"
	base64JWT    = "ZXlK" + "aGJHY2lPaUpTVXpJMU5pSXNJblI1Y0NJNklrcFhWQ0o5LmV5SjFhV1FpT2pFMk1qTTVNREl5ZlE="
	genericKey   = "api_" + "key = 'x9Kf8dQz7Lm2TwPq4'"
)

func privateKey(bytes int) string {
	r := rand.New(rand.NewPCG(1, 2))
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var b strings.Builder
	b.WriteString("-----BEGIN RSA PRIVATE" + " KEY-----\n")
	for b.Len() < bytes {
		for range 64 {
			b.WriteByte(base64[r.IntN(len(base64))])
		}
		b.WriteByte('\n')
	}
	b.WriteString("-----END RSA PRIVATE" + " KEY-----")
	return b.String()
}

// unhurried is a Screener that has the time that a busy machine takes.
func unhurried() *Screener {
	return New().WithLimit(5 * time.Minute)
}

func scanText(t testing.TB, s *Screener, text string) []Finding {
	t.Helper()
	found, err := s.Scan(context.Background(), text)
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return found
}

// place is what a test wants of a finding.
type place struct {
	Rule       string
	Line       int
	Secret     string
	ReportOnly bool
}

func places(text string, found []Finding) []place {
	var all []place
	for _, f := range found {
		all = append(all, place{f.Rule, f.Line, text[f.SecretStart:f.SecretEnd], f.ReportOnly})
	}
	return all
}

func TestScan(t *testing.T) {
	pem := privateKey(3200)
	tests := []struct {
		name, text string
		want       []place
	}{
		{"alone", githubToken, []place{{"github-pat", 1, githubToken, false}}},
		{"one byte", "x", nil},
		{"empty", "", nil},
		{"after newlines", "\n\n" + githubToken + "\n", []place{{"github-pat", 3, githubToken, false}}},
		{"after multi-byte text", "añb\n€ " + githubToken, []place{{"github-pat", 2, githubToken, false}}},
		{"after bytes that are not UTF-8", "\xe9\n\xff " + githubToken, []place{{"github-pat", 2, githubToken, false}}},
		{"CRLF", "a\r\nkey " + githubToken + "\r\nb", []place{{"github-pat", 2, githubToken, false}}},
		{"two in one line", githubToken + " " + awsKey, []place{
			{"github-pat", 1, githubToken, false}, {"aws-access-token", 1, awsKey, false},
		}},
		{"with a comment for gitleaks", githubToken + " # gitleaks:allow", []place{{"github-pat", 1, githubToken, false}}},
		{"private key", "a\n" + pem + "\nb", []place{{"private-key", 2, pem, false}}},
		{"token of memoryd", "Bearer " + memorydToken + ".", []place{{"memoryd-token", 1, memorydToken, false}}},
		{"a JWT in base64", "x " + base64JWT + ".", []place{{"jwt-base64", 1, base64JWT, false}}},
		{"generic", genericKey, []place{{"generic-api-key", 1, "x9Kf8dQz7Lm2TwPq4", true}}},
		{"a better rule than generic", "api_key = " + githubToken, []place{{"github-pat", 1, githubToken, false}}},
		{"secret on the line after its name", "api_key =\n'x9Kf8dQz7Lm2TwPq4'", []place{
			{"generic-api-key", 2, "x9Kf8dQz7Lm2TwPq4", true},
		}},
		{"secret twice in a match", "x9Kf8dQz7Lm2TwPq4_key = x9Kf8dQz7Lm2TwPq4\n", []place{
			{"generic-api-key", 1, "x9Kf8dQz7Lm2TwPq4", true},
		}},
	}
	s := unhurried()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := scanText(t, s, test.text)
			if diff := cmp.Diff(test.want, places(test.text, found)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, f := range found {
				if f.Start > f.SecretStart || f.SecretEnd > f.End || f.Unsearched {
					t.Errorf("finding %+v: the secret is not in its match", f)
				}
			}
		})
	}
}

// The second of two places with the same text is the secret.
func TestScan_SecretWithinMatch(t *testing.T) {
	text := "x9Kf8dQz7Lm2TwPq4_key = x9Kf8dQz7Lm2TwPq4\n"
	found := scanText(t, unhurried(), text)
	if len(found) != 1 || found[0].SecretStart != strings.LastIndex(text, "x9Kf8dQz7Lm2TwPq4") {
		t.Errorf("got %+v, want the second place", found)
	}
}

// What people and agents write down all the time is not found, or at most reported.
func TestScan_Legitimate(t *testing.T) {
	sha := sha1.Sum([]byte("commit"))
	commit := hex.EncodeToString(sha[:])
	sum := sha256.Sum256([]byte("file"))
	file := hex.EncodeToString(sum[:])
	jwt := func(key, payload string) string {
		text := "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + base64.RawURLEncoding.EncodeToString([]byte(payload))
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	const uuid = "3f2b8c1e-9d4a-4f6b-8e7c-1a2b3c4d5e6f"
	tests := []struct {
		name, text string
		reported   bool // that much is allowed
	}{
		{name: "AWS's example id", text: "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE"},
		{name: "AWS's example secret", text: "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
		{name: "jwt.io's example", text: "It is " + jwt("your-256-bit-secret",
			`{"sub":"1234567890","name":"John Doe","iat":1516239022}`) + "."},
		{name: "jwt.io's example of today", text: "Authorization: Bearer " + jwt("a-string-secret-at-least-256-bits-long",
			`{"sub":"1234567890","name":"John Doe","admin":true,"iat":1516239022}`)},
		{name: "Slack's example", text: "POST https://hooks.slack.com/services/T00000000/B00000000/" +
			strings.Repeat("X", 24) + "\nor (hooks.slack.com/services/T00000000/B00000000/" + strings.Repeat("X", 24) + ")"},
		{name: "UUID", text: "ticket " + uuid + "\nid: " + uuid},
		{name: "commit", text: "commit " + commit + "\nfixed in " + commit + ", see there"},
		{name: "checksums", text: file + "  notes.md\nsha256: " + file},
		{name: "prose", text: "The password is in the vault under /team/db; ask Ada for the token. Rotate API keys monthly: " +
			"the old secret key must be revoked, and credentials never go into this file."},
		{name: "code", text: "token := os.Getenv(\"GITHUB_TOKEN\")\nreq.Header.Set(\"Authorization\", \"Bearer \"+token)\n" +
			"password = input('password: ')\nauth, err := newAuthenticator(cfg.Tokens)\n"},
		{name: "placeholders", text: "curl -H 'Authorization: Bearer $TOKEN' https://example.com\napi_key: <your key>\n" +
			"export API_KEY=${API_KEY}\npassword=********"},
		{name: "public key", text: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3tmkZ8r3w8mB7p1k0sWc1S0o8v7Xr2m4Q5T6u7V8w9 ada@host"},
		{name: "names of hosts and files", text: "netlify: https://my-quite-long-name-of-a-site-at-netlify.netlify.app/docs, " +
			"okta = acme-corporation.okta.com; jira: acmecorporation.atlassian.net/browse/ABC-123.\nsnyk: " +
			"github.com/acme/infrastructure-tools-and-scripts.git (see grafana=dashboards/production-overview.json)"},
		{name: "code with names of services", text: "dropbox := dropboxclient(config.Dropbox.AccessTokenFromEnv, nil)\n" +
			"slack = SlackNotificationChannel(name='deployments'), twitter: acme_corporation_official.\n" +
			"etsy shop: BeautifulCandlesByAnneMarie, [kraken: marketDataSubscriptionHandlerFactory]"},
		{name: "service and commit", text: "netlify commit: " + commit + "\nsentry issue, " + file, reported: true},
		{name: "service and UUID", text: "heroku dyno: " + uuid, reported: true},
		{name: "service and word", text: "dropbox: implementations\nLinkedIn, recommendation\n", reported: true},
		{name: "service and number", text: "discord channel: 112233445566778899", reported: true},
		{name: "sourcegraph and commit", text: "found with sourcegraph\n" + commit, reported: true},
		{name: "hash with the beginning of a key", text: "4b1d" + file[:60], reported: true},
		{name: "what has been masked", text: "key " + placeholder + "\ncurl -u ada:" + placeholder + " https://example.com"},
	}
	s := unhurried()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, f := range scanText(t, s, test.text) {
				if !test.reported || !f.ReportOnly {
					t.Errorf("found %s in %q, report only: %t", f.Rule, test.text[f.SecretStart:f.SecretEnd], f.ReportOnly)
				}
			}
		})
	}
}

// placeholder is what package memory writes where a secret was.
const placeholder = "[REDACTED]"

// mask replaces what is not only reported, as package memory does.
func mask(text string, found []Finding) (masked string, n int) {
	var b strings.Builder
	done := 0
	for _, f := range found {
		if f.ReportOnly || f.SecretEnd <= done {
			continue
		}
		if f.SecretStart >= done {
			b.WriteString(text[done:f.SecretStart] + placeholder)
			n++
		}
		done = f.SecretEnd
	}
	return b.String() + text[done:], n
}

// allRules are the rules that look at texts.
func allRules(t testing.TB) []config.Rule {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var rules []config.Rule
	for _, id := range slices.Sorted(maps.Keys(all.rules.Config.Rules)) {
		if r := all.rules.Config.Rules[id]; r.Regex != nil && r.Path == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// Every rule finds something, its secret is in its match, and nothing is found any more once it is masked. The secrets
// of some rules are all of digits, or hashes.
func TestScan_EveryRule(t *testing.T) {
	reportOnly := []string{"asana-client-id", "cisco-meraki-api-key", "discord-client-id"}
	s := unhurried()
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for _, rule := range allRules(t) {
		t.Run(rule.RuleID, func(t *testing.T) {
			found := 0
			for try := 0; try < 500 && found < 10; try++ {
				text := "# notes, é\n" + rule.Keywords[g.IntN(len(rule.Keywords))] + " " + g.text(rule.Regex.String()) + "\nend\n"
				findings := scanText(t, s, text)
				if !slices.ContainsFunc(findings, func(f Finding) bool {
					return f.Rule == rule.RuleID && f.ReportOnly == slices.Contains(reportOnly, rule.RuleID)
				}) {
					continue // too little entropy, or an exception
				}
				found++
				for _, f := range findings {
					if f.Start > f.SecretStart || f.SecretStart >= f.SecretEnd || f.SecretEnd > f.End || f.End > len(text) {
						t.Errorf("%q: places of %+v", text, f)
					}
					if f.SecretEnd-f.SecretStart < 12 && !strings.HasPrefix(f.Rule, "curl-auth-") { // which may be short
						t.Errorf("%q: %+v is a part of the secret", text, f)
					}
				}
				masked, _ := mask(text, findings)
				if again, n := mask(masked, scanText(t, s, masked)); n > 0 {
					t.Errorf("%q: masked to %q, and that to %q", text, masked, again)
				}
				if !strings.HasPrefix(masked, "# notes, é\n") {
					t.Errorf("%q: masked too much: %q", text, masked)
				}
			}
			if found == 0 {
				t.Error("found nothing that it was made for")
			}
		})
	}
}

// A text is found to have the same in pieces as it has at once.
func TestScan_Pieces(t *testing.T) {
	s := unhurried()
	secrets := []string{githubToken, awsKey, memorydToken, privateKey(3200), privateKey(9000), "é\n"}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		separator := []string{"\n", " ", "\r\n"}[seed%3]
		var b strings.Builder
		var want []place
		for b.Len() < 200<<10 {
			filler := strings.Repeat("lorem ipsum dolor ", r.IntN(400))
			b.WriteString(filler + separator)
			if secret := secrets[r.IntN(len(secrets))]; secret != "é\n" {
				line := 1 + strings.Count(b.String(), "\n")
				for _, p := range places(secret, scanText(t, s, secret)) {
					want = append(want, place{p.Rule, line, p.Secret, p.ReportOnly})
				}
				b.WriteString(secret + separator)
			} else {
				b.WriteString(secret)
			}
		}
		if diff := cmp.Diff(want, places(b.String(), scanText(t, s, b.String()))); diff != "" {
			t.Errorf("seed %d: findings (-want +got):\n%s", seed, diff)
		}
	}
}

// What is left out as no candidate is nothing that the rule would have found.
func TestGenericSpans(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	rule := all.generic.Config.Rules[ruleGeneric]
	g := generator{rand.New(rand.NewPCG(3, 4))}
	words := strings.Fields("the key is, token: auth= secret 2026-01-02 api_key password >= see docs/readme.md:12 " +
		"https://example.com/a/3f2b8c1e access 'x9Kf8dQz7Lm2TwPq4' \"credential\" a,b " + strings.Repeat("word ", 20))
	total := 0
	for range 300 {
		var b strings.Builder
		for range 40 {
			if g.IntN(30) == 0 {
				b.WriteString(g.text(rule.Regex.String()))
			}
			b.WriteString(words[g.IntN(len(words))] + []string{" ", "\n", "  ", "\r\n"}[g.IntN(4)])
		}
		text := b.String()
		secrets := func(parts iter.Seq[span]) map[string]bool {
			set := make(map[string]bool)
			for part := range parts {
				found, _ := scan(t.Context(), text, part, all.generic)
				for _, f := range found {
					set[fmt.Sprint(f.SecretStart, f.SecretEnd)] = true
				}
			}
			return set
		}
		want := secrets(func(yield func(span) bool) { yield(span{0, len(text)}) })
		if diff := cmp.Diff(want, secrets(genericSpans(text, all.generic.words))); diff != "" {
			t.Errorf("%q: secrets (-want +got):\n%s", text, diff)
		}
		total += len(want)
	}
	if total < 100 {
		t.Errorf("only %d secrets in all texts", total)
	}
}

// What touches a cut is told by the piece that has all of it.
func TestPiece_Sees(t *testing.T) {
	middle := piece{start: 100, end: 200, cutHead: true, cutTail: true, next: 150}
	whole := piece{start: 100, end: 200, next: 150}
	tests := []struct {
		p          piece
		start, end int
		want       bool
	}{
		{middle, 120, 130, true},
		{middle, 100, 130, false},
		{middle, 160, 200, false},
		{middle, 150, 200, true}, // the next piece begins with it
		{middle, 110, 200, true},
		{whole, 100, 130, true},
		{whole, 160, 200, true},
	}
	for _, test := range tests {
		if got := test.p.sees(test.start, test.end); got != test.want {
			t.Errorf("%+v sees %d to %d: %t, want %t", test.p, test.start, test.end, got, test.want)
		}
	}
}

func TestPieces(t *testing.T) {
	for _, text := range []string{
		"", "x", strings.Repeat("x", pieceBytes), strings.Repeat("é", pieceBytes), strings.Repeat("line\n", pieceBytes),
		strings.Repeat("\x80", 3*pieceBytes), strings.Repeat("\n", 2*pieceBytes+1),
	} {
		covered, last := 0, 0
		for p := range pieces(text, span{0, len(text)}) {
			if p.start > covered || p.end-p.start > pieceBytes+alignBytes || p.start < last {
				t.Fatalf("text of %d bytes: piece %+v after %d", len(text), p, covered)
			}
			if covered > 0 && covered-p.start < overlapBytes {
				t.Errorf("text of %d bytes: pieces overlap by %d", len(text), covered-p.start)
			}
			if p.next != len(text) && p.next <= p.start {
				t.Fatalf("text of %d bytes: piece %+v gets nowhere", len(text), p)
			}
			covered, last = p.end, p.start
		}
		if covered != len(text) {
			t.Errorf("text of %d bytes: %d covered", len(text), covered)
		}
	}
}

// A text that takes too long is not one without secrets.
func TestScan_Limit(t *testing.T) {
	s := New().WithLimit(time.Nanosecond)
	text := strings.Repeat("line\n", 100)
	found := scanText(t, s, text)
	want := []Finding{{Rule: RuleUnsearched, Line: 1, End: len(text), SecretEnd: len(text), Unsearched: true}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestScan_Canceled(t *testing.T) {
	s := unhurried()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Scan(ctx, githubToken); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context is canceled", err)
	}
}

// How long a scan may take depends on the size of the text.
func TestNew_Limit(t *testing.T) {
	s := New()
	for _, test := range []struct {
		size int
		want time.Duration
	}{{0, 300 * time.Millisecond}, {1_000_000, 800 * time.Millisecond}, {8_000_000, 4300 * time.Millisecond}} {
		if got := s.limit(test.size); got != test.want {
			t.Errorf("%d bytes: %v, want %v", test.size, got, test.want)
		}
	}
}

// A small text need not wait, and one that is large waits until another was scanned.
func TestTurn(t *testing.T) {
	s := New()
	s.turns = newTurns(1)
	end, err := s.Turn(t.Context(), "a", largeBytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Turn(t.Context(), "a", largeBytes-1); err != nil {
		t.Errorf("a small text: %v", err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Turn(late, "b", largeBytes); !errors.Is(err, context.Canceled) {
		t.Errorf("while another is scanned: got %v, want that the context is canceled", err)
	}
	end()
	if _, err := s.Turn(late, "b", largeBytes); err != nil {
		t.Errorf("after the other was scanned: %v", err)
	}
}

func TestScan_Concurrent(t *testing.T) {
	s := unhurried()
	text := strings.Repeat("line\n", 20_000) + githubToken + " " + genericKey
	var scans sync.WaitGroup
	for range 8 {
		scans.Go(func() {
			for range 3 {
				found, err := s.Scan(context.Background(), text)
				if err != nil || len(found) != 2 || found[0].Line != 20_001 {
					t.Errorf("got %+v, %v", found, err)
				}
			}
		})
	}
	scans.Wait()
}

// FuzzScan checks that the places are in the text and in order, and that masking comes to an end.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		githubToken, "\n\n" + genericKey, privateKey(200), "curl -u a:bcd\xff -H 'Authorization: Basic dXNlcjpwYXNz'",
		"key\n=\n\n'" + awsKey + "'\r\n",
	} {
		f.Add(text)
	}
	s := unhurried()
	f.Fuzz(func(t *testing.T, text string) {
		found := scanText(t, s, text)
		last := 0
		for _, finding := range found {
			if finding.Start < 0 || finding.Start > finding.SecretStart || finding.SecretStart > finding.SecretEnd ||
				finding.SecretEnd > finding.End || finding.End > len(text) || finding.SecretStart < last ||
				finding.Line != 1+strings.Count(text[:finding.SecretStart], "\n") {
				t.Errorf("places of %+v", finding)
			}
			last = finding.SecretStart
		}
		masked, n := mask(text, found)
		for round := 0; n > 0; round++ {
			if round == 4 {
				t.Fatalf("still found: %q", masked)
			}
			masked, n = mask(masked, scanText(t, s, masked))
		}
	})
}

func BenchmarkScan(b *testing.B) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog and writes down what it learned.\n", 1<<20/77)
	notes := strings.Repeat("- [x] fixed the token refresh in auth.go, see commit 1a2b3c4; they said the api key rotates\n",
		1<<20/90)
	s := unhurried()
	var words []string
	for _, rule := range allRules(b) {
		words = append(words, rule.Keywords...)
	}
	every := strings.Join(words, " ") + "\n"
	var keys strings.Builder
	for i := 0; keys.Len() < 1<<20; i++ {
		fmt.Fprintf(&keys, `"api_key_%d":"x9Kf%08dQz7Lm2Tw",`, i, i*7919)
	}
	for _, bench := range []struct{ name, text string }{
		{"prose/2K", prose[:2<<10]},
		{"prose/64K", prose[:64<<10]},
		{"prose/1M", prose},
		{"notes/2K", notes[:2<<10]},
		{"notes/64K", notes[:64<<10]},
		{"notes/1M", notes},
		{"prose with every word once/1M", every + prose},
		{"one line of keys/1M", keys.String()},
		{"every word again and again/64K", strings.Repeat(every, 64<<10/len(every))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.text)))
			b.ReportAllocs()
			for b.Loop() {
				_ = scanText(b, s, bench.text)
			}
		})
	}
}
