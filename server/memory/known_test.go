package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// What package screen finds, and what it finds behind the name of a service only.
const (
	githubToken  = "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"
	memorydToken = "memoryd_" + "q7Rk2mXv9LbT4nWc8JfP1sHd6YgA3zKeU5tMoB0iCxE"
	adafruitKey  = "x7k2m9q4w8z1p5t3v6y0r2n8h4j7g1s5"
)

// edit is an edit of a file with a text that was written while nobody looked for secrets.
type edit struct {
	name, text string
	cmd        memory.Command
	rule       string // of the one secret that is new, if there is one
	line       int64
	stored     string // what is stored where secrets are not refused
	masked     string // and where they are masked
}

const editedPath = "/memories/a.md"

func insert(line int64, text string) memory.Command {
	return memory.Insert{Path: editedPath, InsertLine: line, InsertText: text}
}

func replace(oldStr, newStr string) memory.Command {
	return memory.StrReplace{Path: editedPath, OldStr: oldStr, NewStr: newStr}
}

// An edit that leaves a secret as it was has nothing to do with it, wherever it is. One that makes a secret of what was
// there before has.
func TestSecrets_Known(t *testing.T) {
	edits := []edit{{
		name: "behind it at the end", text: "token " + githubToken, cmd: insert(1, "hello"),
		stored: "token " + githubToken + "\nhello",
	}, {
		name: "right before it", text: githubToken + "\n", cmd: insert(0, "hello"), stored: "hello\n" + githubToken + "\n",
	}, {
		name: "the line end behind it", text: "adafruit: " + adafruitKey + "\nb", cmd: replace("\nb", "; b"),
		stored: "adafruit: " + adafruitKey + "; b",
	}, {
		name: "the quote behind it", text: "adafruit = '" + adafruitKey + "'", cmd: replace("s5'", "s5`"),
		stored: "adafruit = '" + adafruitKey + "`",
	}, {
		name: "the key before it", text: "b: adafruit_id=" + adafruitKey, cmd: replace("b: adafruit_id", "adafruit_secret"),
		stored: "adafruit_secret=" + adafruitKey,
	}, {
		name: "all that was behind it", text: memorydToken + ", of Ada", cmd: replace(", of Ada", ""), stored: memorydToken,
	}, {
		name: "between two", text: memorydToken + "..." + githubToken, cmd: replace("...", "\n\n"),
		stored: memorydToken + "\n\n" + githubToken,
	}, {
		name: "another one right before it", text: githubToken + "\n", cmd: insert(0, "id "+memorydToken),
		rule: "memoryd-token", line: 1, stored: "id " + memorydToken + "\n" + githubToken + "\n",
		masked: "id [REDACTED]\n" + githubToken + "\n",
	}, {
		name: "the same once more", text: "a\n" + githubToken, cmd: insert(2, githubToken),
		rule: "github-pat", line: 3, stored: "a\n" + githubToken + "\n" + githubToken,
		masked: "a\n" + githubToken + "\n[REDACTED]",
	}, {
		name: "a key before a value", text: "id=" + adafruitKey + "\n", cmd: replace("id", "adafruit"),
		rule: "adafruit-api-key", line: 1, stored: "adafruit=" + adafruitKey + "\n", masked: "adafruit=[REDACTED]\n",
	}, {
		name: "a key before a doubtful value", text: "api_key=" + adafruitKey + "\n", cmd: insert(0, "adafruit: x"),
		stored: "adafruit: x\napi_key=" + adafruitKey + "\n",
	}, {
		name: "a key instead of a doubtful one", text: "api_key=" + adafruitKey + "\n", cmd: replace("api", "adafruit"),
		rule: "adafruit-api-key", line: 1, stored: "adafruit_key=" + adafruitKey + "\n",
		masked: "adafruit_key=[REDACTED]\n",
	}, {
		name: "a key before a value near a secret", text: "adafruit: " + adafruitKey + "\nid=" + adafruitKey[1:] + "z",
		cmd:  replace("id", "adafruit"),
		rule: "adafruit-api-key", line: 2, stored: "adafruit: " + adafruitKey + "\nadafruit=" + adafruitKey[1:] + "z",
		masked: "adafruit: " + adafruitKey + "\nadafruit=[REDACTED]",
	}, {
		name: "a line before a value", text: adafruitKey + "\n", cmd: insert(0, "adafruit_key ="),
		rule: "adafruit-api-key", line: 2, stored: "adafruit_key =\n" + adafruitKey + "\n", masked: "adafruit_key =\n[REDACTED]\n",
	}, {
		name: "what spoiled it", text: memorydToken + "XYZ", cmd: replace("XYZ", " XYZ"),
		rule: "memoryd-token", line: 1, stored: memorydToken + " XYZ", masked: "[REDACTED] XYZ",
	}, {
		name: "what was not one before it", text: "xyz" + memorydToken, cmd: replace("xyz", ""),
		rule: "memoryd-token", line: 1, stored: memorydToken, masked: "[REDACTED]",
	}, {
		name: "its end", text: "a " + githubToken[:30], cmd: replace(githubToken[20:30], githubToken[20:]),
		rule: "github-pat", line: 1, stored: "a " + githubToken, masked: "a [REDACTED]",
	}, {
		name: "what parted it", text: "a " + githubToken[:30] + "..." + githubToken[30:], cmd: replace("...", ""),
		rule: "github-pat", line: 1, stored: "a " + githubToken, masked: "a [REDACTED]",
	}}
	screener := unhurried()
	for _, e := range edits {
		for _, policy := range []memory.SecretsPolicy{memory.SecretsReport, memory.SecretsMask, memory.SecretsRefuse} {
			for _, batch := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/batch=%t", e.name, policy, batch), func(t *testing.T) {
					e.check(t, screener, policy, batch)
				})
			}
		}
	}
}

// check makes the edit and looks at what became of it.
func (e edit) check(t *testing.T, screener memory.Screener, policy memory.SecretsPolicy, batch bool) {
	t.Helper()
	s := newScreened(t, memory.SecretsOff, memkv.New(), screener)
	must(t, s.Memory, memory.Create{Path: editedPath, FileText: e.text})
	setPolicy(t, s, policy)

	want := e.stored
	var found []memory.SecretReport
	if e.rule != "" {
		found = []memory.SecretReport{{Path: editedPath, Rule: e.rule, Line: e.line, Done: policy}}
		switch policy {
		case memory.SecretsMask:
			want = e.masked
		case memory.SecretsRefuse:
			want = e.text
		}
	}
	var result memory.Result
	if batch {
		got, err := s.Batch(t.Context(), namespace, []memory.BatchCommand{{Command: e.cmd}}, "")
		if err != nil {
			t.Fatal(err)
		}
		result = got.Failed
	} else {
		result = do(t, s.Memory, e.cmd)
	}
	if refused := e.rule != "" && policy == memory.SecretsRefuse; refused != (result.Reason == memory.ReasonSecretRefused) {
		t.Errorf("got %v, want that it is refused: %t", result, refused)
	}
	if diff := cmp.Diff(want, s.stored(t, editedPath)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(found, *s.reported); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// What was there before may be found no sooner than another is masked. What is not searched always counts.
func TestSecrets_KnownPlaces(t *testing.T) {
	filler := strings.Repeat("line\n", 64<<10/5) // all but a byte of a chunk of contents
	edits := []edit{{
		name: "covered by a new one", text: "KEY-0002", cmd: replace("KEY-0002", "HIDE-0001KEY-0002"),
		rule: "hide", line: 1, stored: "HIDE-0001KEY-0002", masked: "[REDACTED]KEY-0002",
	}, {
		name: "covered before too", text: "HIDE-0001KEY-0002", cmd: replace("HIDE-0001K", "HIDE-0003K"),
		rule: "hide", line: 1, stored: "HIDE-0003KEY-0002", masked: "[REDACTED][REDACTED]",
	}, {
		name: "not searched", text: "DENSE", cmd: insert(0, "b"),
		rule: "dense", line: 2, stored: "b\nDENSE",
	}, {
		name: "in two chunks", text: filler + "SEAL-0001...\n", cmd: replace("...\n", "\n"), stored: filler + "SEAL-0001\n",
	}, {
		name: "in two chunks, spoiled", text: filler + "SEAL-0001XXX", cmd: replace("XXX", "!"),
		rule: "seal", line: 64<<10/5 + 1, stored: filler + "SEAL-0001!", masked: filler + "[REDACTED]!",
	}}
	for _, e := range edits {
		for _, policy := range []memory.SecretsPolicy{memory.SecretsReport, memory.SecretsMask, memory.SecretsRefuse} {
			if e.rule == "dense" && policy == memory.SecretsMask {
				continue // refused, as TestSecrets_Order checks
			}
			t.Run(fmt.Sprintf("%s/%d", e.name, policy), func(t *testing.T) {
				e.check(t, keys{}, policy, false)
			})
		}
	}
}

// What was there before is searched only for a secret that may be known.
func TestSecrets_KnownSearches(t *testing.T) {
	for _, test := range []struct {
		text string
		cmd  memory.Command
		want int // searches
	}{
		{"a", insert(1, "b"), 1},
		{"KEY-0001\na", insert(2, "b"), 1},
		{"a", insert(1, "KEY-0001"), 1},
		{"KEY-00", replace("00", "0001"), 1},
		{"KEY-0001", insert(1, "b"), 2},
		{"KEY-0001...KEY-0002", replace("...", ", "), 2},
	} {
		scans := 0
		s := newScreened(t, memory.SecretsOff, memkv.New(), keys{func() { scans++ }})
		must(t, s.Memory, memory.Create{Path: editedPath, FileText: test.text})
		setPolicy(t, s, memory.SecretsReport)
		do(t, s.Memory, test.cmd)
		if scans != test.want {
			t.Errorf("%+v of %q: %d searches, want %d", test.cmd, test.text, scans, test.want)
		}
	}
}

// Two edits with the same outcome are told apart by what was there before.
func TestSecrets_KnownInOneFileOnly(t *testing.T) {
	s := newScreened(t, memory.SecretsOff, harsh(), keys{})
	must(t, s.Memory, memory.Create{Path: "/memories/a", FileText: "SEAL-0001."})
	must(t, s.Memory, memory.Create{Path: "/memories/b", FileText: "SEAL-0001X"})
	setPolicy(t, s, memory.SecretsRefuse)
	got, err := s.Batch(t.Context(), namespace, []memory.BatchCommand{
		{Command: memory.StrReplace{Path: "/memories/a", OldStr: ".", NewStr: "!"}},
		{Command: memory.StrReplace{Path: "/memories/b", OldStr: "X", NewStr: "!"}},
	}, "")
	if err != nil || got.FailedIndex != 1 || got.Failed.Reason != memory.ReasonSecretRefused {
		t.Errorf("batch: %+v, %v; want that command 1 is refused", got, err)
	}
}

// forgetful is keys, except that its second scan fails.
type forgetful struct{ scans *int }

// Turn implements memory.Screener.
func (forgetful) Turn(context.Context, string, int) (end func(), err error) { return func() {}, nil }

// Scan implements memory.Screener.
func (f forgetful) Scan(ctx context.Context, text string) ([]memory.SecretFinding, error) {
	if *f.scans++; *f.scans == 2 {
		return nil, errScan
	}
	return keys{}.Scan(ctx, text)
}

// Without a search of what was there before, nothing is known.
func TestSecrets_KnownScreenerFails(t *testing.T) {
	for _, policy := range []memory.SecretsPolicy{memory.SecretsReport, memory.SecretsRefuse} {
		s := newScreened(t, memory.SecretsOff, harsh(), forgetful{new(int)})
		must(t, s.Memory, memory.Create{Path: editedPath, FileText: "KEY-0001"})
		setPolicy(t, s, policy)
		_, err := s.Do(t.Context(), namespace, insert(1, "b"), memory.Call{})
		if policy == memory.SecretsRefuse {
			if !errors.Is(err, errScan) || s.stored(t, editedPath) != "KEY-0001" {
				t.Errorf("got %v, want the error of the screener", err)
			}
			continue
		}
		want := []memory.SecretReport{{Path: editedPath, Rule: "unsearched", Line: 1, Done: memory.SecretsReport}}
		if diff := cmp.Diff(want, *s.reported); err != nil || diff != "" {
			t.Errorf("%v; reports (-want +got):\n%s", err, diff)
		}
	}
}
