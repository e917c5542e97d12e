package memory_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/internal/screen"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// keys is a Screener that finds KEY-nnnn, after "key" and a blank as well and in which the digits may stand in several
// lines, TWIN-nnnn by two rules, SEAL-nnnn, in lines as well, where no capital is behind it, HIDE-nnnn with a KEY-nnnn
// behind it that it covers, and HASH-nnnn for a report only. It cannot search what has DENSE in it. begin, if it is not
// nil, is called first.
type keys struct{ begin func() }

var keyPattern = regexp.MustCompile(`(?:key )?(KEY-\n*(?:[0-9]\n*){3}[0-9]|TWIN-[0-9]{4}|HASH-[0-9]{4}|DENSE)|` +
	`(SEAL-\n*(?:[0-9]\n*){3}[0-9])(?:[^A-Z]|$)|(HIDE-[0-9]{4})(?:KEY-[0-9]{4})?`)

// Turn implements memory.Screener.
func (keys) Turn(context.Context, string, int) (end func(), err error) { return func() {}, nil }

// Scan implements memory.Screener.
func (k keys) Scan(ctx context.Context, text string) ([]memory.SecretFinding, error) {
	if k.begin != nil {
		k.begin()
	}
	var found []memory.SecretFinding
	for _, at := range keyPattern.FindAllStringSubmatchIndex(text, -1) {
		for at[2] < 0 { // the group that matched
			at = slices.Delete(at, 2, 4)
		}
		rule, _, _ := strings.Cut(strings.ToLower(text[at[2]:at[3]]), "-")
		found = append(found, memory.SecretFinding{
			Rule: rule, Line: 1 + strings.Count(text[:at[2]], "\n"), Start: at[0], End: at[1],
			SecretStart: at[2], SecretEnd: at[3], ReportOnly: rule == "hash", Unsearched: rule == "dense",
		})
		if rule == "twin" {
			twin := found[len(found)-1]
			twin.SecretStart++
			found = append(found, twin)
		}
	}
	return found, ctx.Err()
}

// screened is a Memory whose texts are searched for secrets.
type screened struct {
	*memory.Memory
	store    kv.Store
	reported *[]memory.SecretReport
}

func newScreened(t *testing.T, policy memory.SecretsPolicy, store kv.Store, screener memory.Screener) screened {
	t.Helper()
	s := screened{store: store, reported: new([]memory.SecretReport)}
	var mu sync.Mutex
	m, err := memory.New(store, memory.Options{
		Defaults: memory.Settings{Secrets: &policy, CreateOnExisting: new(memory.CreateOverwrite)},
		Screener: screener,
		Report: func(_ context.Context, ns string, found []memory.SecretReport) {
			mu.Lock()
			defer mu.Unlock()
			if ns != namespace {
				t.Errorf("report of namespace %q, want %q", ns, namespace)
			}
			*s.reported = append(*s.reported, found...)
		},
	})
	if err != nil {
		t.Fatalf("new memory: %v", err)
	}
	s.Memory = m
	t.Cleanup(func() {
		if err := m.Check(context.Background(), namespace); err != nil {
			t.Errorf("check: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

func harsh() kv.Store { return kvtest.Harsh(memkv.New()) }

// texts are the texts of the blocks of a result.
func texts(r memory.Result) []string {
	var all []string
	for _, b := range r.Content {
		all = append(all, b.Text)
	}
	return all
}

// stored is the text of a file, "" where there is none.
func (s screened) stored(t *testing.T, path string) string {
	t.Helper()
	_, data, err := s.Read(t.Context(), namespace, path)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(data)
}

func TestSecrets(t *testing.T) {
	const path = "/memories/a.md"
	const created = "File created successfully at: " + path
	const edited = "The file " + path + " has been edited."
	const replaced = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
	refusal := func(line int) []string {
		return []string{fmt.Sprintf("Error: The text contains what looks like a secret (key, line %d). "+
			"Nothing was written. Remove it and try again.", line)}
	}
	tests := []struct {
		name     string
		before   []memory.Command // with the policy off
		cmd      memory.Command
		refused  []string // what refuse answers; nil is what report answers
		masked   []string // what mask answers; nil is what report answers
		reported []string // what report answers
		written  string   // what report leaves
		maskedAs string   // what mask leaves; "" is what report leaves
		found    []memory.SecretReport
	}{{
		name: "create", cmd: memory.Create{Path: path, FileText: "a\nkey KEY-0001 x\n"},
		refused:  refusal(2),
		masked:   []string{created, "Note: 1 secrets were replaced by [REDACTED] (key, line 2)"},
		reported: []string{created}, written: "a\nkey KEY-0001 x\n", maskedAs: "a\nkey [REDACTED] x\n",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 2}},
	}, {
		name: "several", cmd: memory.Put{Path: path, Data: []byte("é\r\nKEY-0001KEY-0002\nHASH-0003 KEY-0004")},
		refused:  refusal(2),
		masked:   []string{created, "Note: 3 secrets were replaced by [REDACTED] (key, line 2)"},
		reported: []string{created}, written: "é\r\nKEY-0001KEY-0002\nHASH-0003 KEY-0004",
		maskedAs: "é\r\n[REDACTED][REDACTED]\nHASH-0003 [REDACTED]",
		found: []memory.SecretReport{
			{Path: path, Rule: "key", Line: 2},
			{Path: path, Rule: "key", Line: 2},
			{Path: path, Rule: "hash", Line: 3},
			{Path: path, Rule: "key", Line: 3},
		},
	}, {
		name: "by two rules", cmd: memory.Create{Path: path, FileText: "TWIN-0001"},
		refused: []string{"Error: The text contains what looks like a secret (twin, line 1). " +
			"Nothing was written. Remove it and try again."},
		masked:   []string{created, "Note: 1 secrets were replaced by [REDACTED] (twin, line 1)"},
		reported: []string{created}, written: "TWIN-0001", maskedAs: "[REDACTED]",
		found: []memory.SecretReport{{Path: path, Rule: "twin", Line: 1}, {Path: path, Rule: "twin", Line: 1}},
	}, {
		name:   "end of a secret of many lines",
		before: []memory.Command{memory.Create{Path: path, FileText: "a\nKEY-\n\n\n\n\n00\n0X\nb\nc\nd\ne"}},
		cmd:    memory.StrReplace{Path: path, OldStr: "X", NewStr: "1"},
		masked: []string{
			replaced + "     1\ta\n     2\t[REDACTED]\n     3\tb\n     4\tc",
			"Note: 1 secrets were replaced by [REDACTED] (key, line 2)",
		},
		refused:  refusal(2),
		reported: []string{replaced + "     6\t\n     7\t00\n     8\t01\n     9\tb\n    10\tc"},
		written:  "a\nKEY-\n\n\n\n\n00\n01\nb\nc\nd\ne", maskedAs: "a\n[REDACTED]\nb\nc\nd\ne",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 2}},
	}, {
		name:   "what spoiled a secret of many lines",
		before: []memory.Command{memory.Create{Path: path, FileText: "SEAL-\n\n\n\n\n\n\n0001X\nb\nc\nd\ne"}},
		cmd:    memory.StrReplace{Path: path, OldStr: "X", NewStr: "y"},
		masked: []string{
			replaced + "     1\t[REDACTED]y\n     2\tb\n     3\tc",
			"Note: 1 secrets were replaced by [REDACTED] (seal, line 1)",
		},
		refused: []string{"Error: The text contains what looks like a secret (seal, line 1). " +
			"Nothing was written. Remove it and try again."},
		reported: []string{replaced + "     6\t\n     7\t\n     8\t0001y\n     9\tb\n    10\tc"},
		written:  "SEAL-\n\n\n\n\n\n\n0001y\nb\nc\nd\ne", maskedAs: "[REDACTED]y\nb\nc\nd\ne",
		found: []memory.SecretReport{{Path: path, Rule: "seal", Line: 1}},
	}, {
		name: "doubtful", cmd: memory.Create{Path: path, FileText: "HASH-0001"},
		reported: []string{created}, written: "HASH-0001",
		found: []memory.SecretReport{{Path: path, Rule: "hash", Line: 1}},
	}, {
		name: "one byte", cmd: memory.Create{Path: path, FileText: "x"}, reported: []string{created}, written: "x",
	}, {
		name: "empty", cmd: memory.Create{Path: path}, reported: []string{created},
	}, {
		name:   "two inserts in one line of a long file",
		before: []memory.Command{memory.Create{Path: path, FileText: strings.Repeat("line\n", 3000) + "KEY-"}},
		cmd:    memory.StrReplace{Path: path, OldStr: "KEY-", NewStr: "KEY-0001"},
		masked: []string{
			replaced + "  2999\tline\n  3000\tline\n  3001\t[REDACTED]",
			"Note: 1 secrets were replaced by [REDACTED] (key, line 3001)",
		},
		refused:  refusal(3001),
		reported: []string{replaced + "  2999\tline\n  3000\tline\n  3001\tKEY-0001"},
		written:  strings.Repeat("line\n", 3000) + "KEY-0001", maskedAs: strings.Repeat("line\n", 3000) + "[REDACTED]",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 3001}},
	}, {
		name:   "insert beside a part",
		before: []memory.Command{memory.Create{Path: path, FileText: "a\nkey "}},
		cmd:    memory.Insert{Path: path, InsertLine: 1, InsertText: "KEY-0002"},
		masked: []string{edited, "Note: 1 secrets were replaced by [REDACTED] (key, line 2)"}, refused: refusal(2),
		reported: []string{edited}, written: "a\nKEY-0002\nkey ", maskedAs: "a\n[REDACTED]\nkey ",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 2}},
	}, {
		name:   "deletion that joins",
		before: []memory.Command{memory.Create{Path: path, FileText: "1\n2\nKEY-00..01\n4\n5\n6"}},
		cmd:    memory.StrReplace{Path: path, OldStr: ".."},
		masked: []string{
			replaced + "     1\t1\n     2\t2\n     3\t[REDACTED]\n     4\t4\n     5\t5",
			"Note: 1 secrets were replaced by [REDACTED] (key, line 3)",
		},
		refused:  refusal(3),
		reported: []string{replaced + "     1\t1\n     2\t2\n     3\tKEY-0001\n     4\t4\n     5\t5"},
		written:  "1\n2\nKEY-0001\n4\n5\n6", maskedAs: "1\n2\n[REDACTED]\n4\n5\n6",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 3}},
	}, {
		name:   "what was there before stays",
		before: []memory.Command{memory.Create{Path: path, FileText: "KEY-0001\nb\nc"}},
		cmd:    memory.StrReplace{Path: path, OldStr: "KEY-0001\nb", NewStr: "KEY-0001\nB"},
		reported: []string{
			replaced + "     1\tKEY-0001\n     2\tB\n     3\tc",
		},
		written: "KEY-0001\nB\nc",
	}, {
		name:   "what is near stays",
		before: []memory.Command{memory.Create{Path: path, FileText: "KEY-0001\nb"}},
		cmd:    memory.Insert{Path: path, InsertLine: 1, InsertText: "n"},
		reported: []string{
			edited,
		},
		written: "KEY-0001\nn\nb",
	}, {
		name: "image", cmd: memory.Put{Path: path, Data: []byte("\x89PNG\r\n\x1a\nKEY-0001")},
		reported: []string{created}, written: "\x89PNG\r\n\x1a\nKEY-0001",
	}, {
		name: "binary", cmd: memory.Put{Path: path, Data: []byte("\x00\xffKEY-0001")},
		reported: []string{created}, written: "\x00\xffKEY-0001",
	}, {
		name: "latin-1", cmd: memory.Put{Path: path, Data: []byte("\xe9\nKEY-0001")}, refused: refusal(2),
		masked:   []string{created, "Note: 1 secrets were replaced by [REDACTED] (key, line 2)"},
		reported: []string{created}, written: "\xe9\nKEY-0001", maskedAs: "\xe9\n[REDACTED]",
		found: []memory.SecretReport{{Path: path, Rule: "key", Line: 2}},
	}}
	for _, test := range tests {
		for _, policy := range []memory.SecretsPolicy{
			memory.SecretsOff, memory.SecretsReport, memory.SecretsMask, memory.SecretsRefuse,
		} {
			t.Run(fmt.Sprintf("%s/%d", test.name, policy), func(t *testing.T) {
				s := newScreened(t, memory.SecretsOff, harsh(), keys{})
				for _, cmd := range test.before {
					must(t, s.Memory, cmd)
				}
				before := s.stored(t, path)
				setPolicy(t, s, policy)

				want, written, found := test.reported, test.written, test.found
				switch {
				case policy == memory.SecretsMask && test.masked != nil:
					want, written = test.masked, test.maskedAs
				case policy == memory.SecretsRefuse && test.refused != nil:
					want, written = test.refused, before
				}
				// Twice, since the second call knows the policy.
				result := do(t, s.Memory, test.cmd)
				if diff := cmp.Diff(want, texts(result)); diff != "" {
					t.Errorf("texts (-want +got):\n%s", diff)
				}
				if got := s.stored(t, path); got != written {
					t.Errorf("stored %q, want %q", got, written)
				}
				if result.Entry != nil && result.Entry.Size != int64(len(written)) {
					t.Errorf("size %d, want %d", result.Entry.Size, len(written))
				}
				if policy == memory.SecretsOff {
					found = nil
				}
				checkReports(t, *s.reported, found, policy)
			})
		}
	}
}

func setPolicy(t *testing.T, s screened, policy memory.SecretsPolicy) {
	t.Helper()
	change := memory.SettingsChange{Settings: memory.Settings{Secrets: &policy}}
	if _, err := s.UpdateSettings(t.Context(), namespace, change, ""); err != nil {
		t.Fatalf("set policy: %v", err)
	}
}

// checkReports compares reports with those of a policy that reports all.
func checkReports(t *testing.T, got, all []memory.SecretReport, policy memory.SecretsPolicy) {
	t.Helper()
	var want []memory.SecretReport
	for _, r := range all {
		switch {
		case policy == memory.SecretsReport || r.Rule == "hash" && policy == memory.SecretsMask:
			r.Done = memory.SecretsReport
		case r.Rule == "hash" && len(all) > 1: // refused with the rest
			continue
		case r.Rule == "hash":
			r.Done = memory.SecretsReport
		default:
			r.Done = policy
		}
		want = append(want, r)
	}
	less := cmp.Transformer("set", func(reports []memory.SecretReport) map[memory.SecretReport]int {
		set := make(map[memory.SecretReport]int)
		for _, r := range reports {
			set[r]++
		}
		return set
	})
	if diff := cmp.Diff(want, got, less); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// The first call of a namespace does not know its policy, and the next ones do; both answer the same.
func TestSecrets_PolicyKnown(t *testing.T) {
	s := newScreened(t, memory.SecretsRefuse, harsh(), keys{})
	for range 3 {
		result := do(t, s.Memory, memory.Create{Path: "/memories/a", FileText: "KEY-0001"})
		if result.Reason != memory.ReasonSecretRefused {
			t.Errorf("got %v, want a refusal", result)
		}
		must(t, s.Memory, memory.Create{Path: "/memories/b", FileText: "fine"})
	}
	if n := len(*s.reported); n != 3 {
		t.Errorf("%d reports, want 3", n)
	}
	ns, err := s.Namespace(t.Context(), namespace)
	if err != nil || ns.Revision != 3 || ns.FileCount != 1 {
		t.Errorf("namespace %+v, %v; want three revisions and one file", ns, err)
	}
}

// Checks of the command come before the search, and a text too laborious to search is neither written nor masked.
func TestSecrets_Order(t *testing.T) {
	s := newScreened(t, memory.SecretsMask, harsh(), keys{})
	for _, test := range []struct {
		cmd  memory.Command
		want memory.Reason
	}{
		{memory.Create{Path: "/memories", FileText: "KEY-0001"}, memory.ReasonCreatePathExists},
		{memory.Create{Path: "/memories/a", FileText: strings.Repeat("KEY-0001", 1<<18)}, memory.ReasonFileTooLarge},
		{memory.Create{Path: "/memories/a", FileText: "KEY-0001 DENSE"}, memory.ReasonSecretRefused},
	} {
		if got := do(t, s.Memory, test.cmd); got.Reason != test.want {
			t.Errorf("got %v, want %v", got.Reason, test.want)
		}
	}
}

// A file that is as large as it may be can get larger by its mask, which counts.
func TestSecrets_MaskGrows(t *testing.T) {
	s := newScreened(t, memory.SecretsMask, harsh(), keys{})
	change := memory.SettingsChange{Settings: memory.Settings{MaxFileBytes: new(int64(8))}}
	if _, err := s.UpdateSettings(t.Context(), namespace, change, ""); err != nil {
		t.Fatal(err)
	}
	result := do(t, s.Memory, memory.Create{Path: "/memories/a", FileText: "KEY-0001"})
	if result.Reason != memory.ReasonFileTooLarge {
		t.Errorf("got %v, want that the file is too large", result)
	}
}

func TestSecrets_Batch(t *testing.T) {
	batch := func(commands ...memory.Command) []memory.BatchCommand {
		var all []memory.BatchCommand
		for _, c := range commands {
			all = append(all, memory.BatchCommand{Command: c})
		}
		return all
	}
	t.Run("mask, and later commands see it", func(t *testing.T) {
		s := newScreened(t, memory.SecretsMask, harsh(), keys{})
		got, err := s.Batch(t.Context(), namespace, batch(
			memory.Create{Path: "/memories/a", FileText: "1 KEY-0001"},
			memory.StrReplace{Path: "/memories/a", OldStr: "[REDACTED]", NewStr: "gone, but KEY-0002"},
			memory.Create{Path: "/memories/b", FileText: "KEY-0003"},
		), "")
		if err != nil || got.FailedIndex != -1 {
			t.Fatalf("batch: %+v, %v", got, err)
		}
		if got, want := s.stored(t, "/memories/a"), "1 gone, but [REDACTED]"; got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
		if got, want := s.stored(t, "/memories/b"), "[REDACTED]"; got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
		if len(*s.reported) != 3 {
			t.Errorf("reports: %+v, want 3", *s.reported)
		}
	})
	t.Run("refuse one, write none", func(t *testing.T) {
		s := newScreened(t, memory.SecretsRefuse, harsh(), keys{})
		got, err := s.Batch(t.Context(), namespace, batch(
			memory.Create{Path: "/memories/a", FileText: "fine KEY-"},
			memory.StrReplace{Path: "/memories/a", OldStr: "-", NewStr: "-0001"},
			memory.Create{Path: "/memories/b", FileText: "fine"},
		), "")
		if err != nil || got.FailedIndex != 1 || got.Failed.Reason != memory.ReasonSecretRefused {
			t.Fatalf("batch: %+v, %v; want that command 1 is refused", got, err)
		}
		if got := s.stored(t, "/memories/a"); got != "" {
			t.Errorf("stored %q, want nothing", got)
		}
		want := []memory.SecretReport{{Path: "/memories/a", Rule: "key", Line: 1, Done: memory.SecretsRefuse}}
		if diff := cmp.Diff(want, *s.reported); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
	})
}

// A call that is repeated has the same answer, and what was found is not reported again.
func TestSecrets_Repeated(t *testing.T) {
	for _, policy := range []memory.SecretsPolicy{memory.SecretsReport, memory.SecretsMask} {
		s := newScreened(t, policy, harsh(), keys{})
		call := memory.Call{RequestID: "1"}
		cmd := memory.Create{Path: "/memories/a", FileText: "KEY-0001"}
		first, err := s.Do(t.Context(), namespace, cmd, call)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Do(t.Context(), namespace, cmd, call)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("repeated (-first +again):\n%s", diff)
		}
		if len(*s.reported) != 1 {
			t.Errorf("reports: %+v, want one", *s.reported)
		}
	}
}

// Whatever others write while a text is searched, no secret is put together. Each writer brings one half, and both are
// searched before either is written.
func TestSecrets_Race(t *testing.T) {
	for _, policy := range []memory.SecretsPolicy{memory.SecretsMask, memory.SecretsRefuse} {
		var both sync.WaitGroup
		both.Add(2)
		var once [2]sync.Once
		n := 0
		var mu sync.Mutex
		begin := func() {
			mu.Lock()
			i := n
			n++
			mu.Unlock()
			if i >= 1 && i <= 2 { // the first is that of the file itself
				once[i-1].Do(both.Done)
				both.Wait()
			}
		}
		s := newScreened(t, policy, harsh(), keys{begin})
		must(t, s.Memory, memory.Create{Path: "/memories/a", FileText: "LEFTRITE"})

		var writers sync.WaitGroup
		results := make([]memory.Result, 2)
		for i, cmd := range []memory.StrReplace{
			{Path: "/memories/a", OldStr: "LEFT", NewStr: "KEY-"},
			{Path: "/memories/a", OldStr: "RITE", NewStr: "0001"},
		} {
			writers.Go(func() {
				var err error
				if results[i], err = s.Do(t.Context(), namespace, cmd, memory.Call{}); err != nil {
					t.Errorf("replace: %v", err)
				}
			})
		}
		writers.Wait()
		got := s.stored(t, "/memories/a")
		if strings.Contains(got, "KEY-0001") {
			t.Errorf("stored %q", got)
		}
		switch policy {
		case memory.SecretsMask:
			if got != "[REDACTED]" {
				t.Errorf("stored %q, want it masked", got)
			}
		case memory.SecretsRefuse:
			if results[0].IsError() == results[1].IsError() {
				t.Errorf("results %v, want that one is refused", results)
			}
		}
	}
}

// errScan is an error that a Screener has.
var errScan = errors.New("no rules")

type broken struct{}

// Turn implements memory.Screener.
func (broken) Turn(context.Context, string, int) (end func(), err error) { return func() {}, nil }

// Scan implements memory.Screener.
func (broken) Scan(context.Context, string) ([]memory.SecretFinding, error) { return nil, errScan }

func TestSecrets_ScreenerFails(t *testing.T) {
	s := newScreened(t, memory.SecretsRefuse, harsh(), broken{})
	_, err := s.Do(t.Context(), namespace, memory.Create{Path: "/memories/a", FileText: "x"}, memory.Call{})
	if !errors.Is(err, errScan) {
		t.Errorf("got %v, want the error of the screener", err)
	}
	setPolicy(t, s, memory.SecretsReport)
	must(t, s.Memory, memory.Create{Path: "/memories/a", FileText: "x"})
	want := []memory.SecretReport{{Path: "/memories/a", Rule: "unsearched", Line: 1, Done: memory.SecretsReport}}
	if diff := cmp.Diff(want, *s.reported); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestScreenFiles(t *testing.T) {
	s := newScreened(t, memory.SecretsOff, harsh(), keys{})
	var want []memory.StoredSecret
	const files = 1100 // more than one page has entries
	for i := range files {
		path := fmt.Sprintf("/memories/d%d/%04d", i%3, i)
		text := "fine"
		if i%100 == 0 {
			text = "1\nKEY-0001 HASH-0002"
		}
		must(t, s.Memory, memory.Create{Path: path, FileText: text})
	}
	for i := range 3 {
		for j := range files {
			if j%3 == i && j%100 == 0 {
				path := fmt.Sprintf("/memories/d%d/%04d", i, j)
				want = append(want, memory.StoredSecret{Path: path, Rule: "key", Line: 2},
					memory.StoredSecret{Path: path, Rule: "hash", Line: 2})
			}
		}
	}
	must(t, s.Memory, memory.Put{Path: "/memories/z.png", Data: []byte("\x89PNG\r\n\x1a\nKEY-0001")})
	must(t, s.Memory, memory.Create{Path: "/memories/d0/many", FileText: strings.Repeat("KEY-0001\n", 1000)})

	var got []memory.StoredSecret
	searched, pages, many := 0, 0, 0
	for next, first := "", true; first || next != ""; first = false {
		page, err := s.ScreenFiles(t.Context(), namespace, next)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Secrets {
			if f.Path == "/memories/d0/many" {
				many++
				continue
			}
			got = append(got, f)
		}
		searched += page.Files
		next = page.Next
		pages++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if searched != files+2 || pages != 2 || many != 100 {
		t.Errorf("searched %d files in %d pages, %d places in one; want %d, 2, 100", searched, pages, many, files+2)
	}
	var invalid *memory.InvalidError
	if _, err := s.ScreenFiles(t.Context(), namespace, "elsewhere"); !errors.As(err, &invalid) {
		t.Errorf("a bad token: %v, want an InvalidError", err)
	}
}

type blind struct{}

// Turn implements memory.Screener.
func (blind) Turn(context.Context, string, int) (end func(), err error) { return func() {}, nil }

// Scan implements memory.Screener.
func (blind) Scan(context.Context, string) ([]memory.SecretFinding, error) { return nil, nil }

// A page has few bytes, and each page at least one file.
func TestScreenFiles_Large(t *testing.T) {
	s := newScreened(t, memory.SecretsOff, harsh(), blind{})
	change := memory.SettingsChange{Settings: memory.Settings{MaxFileBytes: new(int64(memory.MaxFileBytes))}}
	if _, err := s.UpdateSettings(t.Context(), namespace, change, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		must(t, s.Memory, memory.Create{Path: "/memories/" + name, FileText: strings.Repeat(name, 5<<20)})
	}
	pages := 0
	for next, first := "", true; first || next != ""; first = false {
		page, err := s.ScreenFiles(t.Context(), namespace, next)
		if err != nil {
			t.Fatal(err)
		}
		if page.Files != 1 {
			t.Errorf("%d files in a page, want 1", page.Files)
		}
		next = page.Next
		pages++
	}
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}

// rules are those of package screen.
type rules struct{ *screen.Screener }

// unhurried are rules that have the time that a busy machine takes.
func unhurried() rules { return rules{screen.New().WithLimit(5 * time.Minute)} }

// Scan implements memory.Screener.
func (r rules) Scan(ctx context.Context, text string) ([]memory.SecretFinding, error) {
	found, err := r.Screener.Scan(ctx, text)
	var findings []memory.SecretFinding
	for _, f := range found {
		findings = append(findings, memory.SecretFinding(f))
	}
	return findings, err
}

// FuzzMask checks that where secrets are masked, no edits leave one in a file, in however many parts it came.
func FuzzMask(f *testing.F) {
	token := "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"
	f.Add("a\n"+token+" b\n"+token, "x", int64(1), "a", "b")
	f.Add("token: "+token[:10]+"?", "y\r\n", int64(0), "?", token[10:])
	f.Add(token[:20], token[20:], int64(1), "\n", "")
	f.Add("\xffcurl -u "+"ada:", "sesame1234 https://example.com", int64(1), "\n", "")
	screener := unhurried()
	f.Fuzz(func(t *testing.T, text, inserted string, line int64, old, replacement string) {
		if len(text)+len(inserted)+len(replacement) > 16<<10 { // of what is around an edit no more is searched
			t.Skip()
		}
		const path = "/memories/f"
		s := newScreened(t, memory.SecretsMask, memkv.New(), screener)
		for _, cmd := range []memory.Command{
			memory.Put{Path: path, Data: []byte(text)},
			memory.Insert{Path: path, InsertLine: line, InsertText: inserted},
			memory.StrReplace{Path: path, OldStr: old, NewStr: replacement},
		} {
			do(t, s.Memory, cmd)
			stored := s.stored(t, path)
			if strings.Contains(stored, "\x00") || strings.HasPrefix(stored, "\xff\xd8\xff") {
				t.Skip() // it may count as binary
			}
			found, err := screener.Scan(t.Context(), stored)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if !f.ReportOnly {
					t.Errorf("%s in %q after %+v", f.Rule, stored, cmd)
				}
			}
		}
	})
}
