package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// crowded is keys, where texts of 10 bytes and more wait for others, each for one that leaves.
type crowded struct {
	keys
	others chan struct{}
}

// Turn implements memory.Screener.
func (c crowded) Turn(ctx context.Context, _ string, size int) (end func(), err error) {
	if size < 10 {
		return func() {}, nil
	}
	select {
	case <-c.others:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Scan implements memory.Screener. It is quick.
func (c crowded) Scan(ctx context.Context, text string) ([]memory.SecretFinding, error) {
	return c.keys.Scan(ctx, text[:min(len(text), 100)])
}

// late is a Memory with a crowded Screener, and what it has reported.
type late struct {
	*memory.Memory
	others   chan struct{}
	mu       sync.Mutex
	reported []memory.SecretReport
}

func newLate(t *testing.T, policy memory.SecretsPolicy) *late {
	t.Helper()
	l := &late{others: make(chan struct{})}
	m, err := memory.New(memkv.New(), memory.Options{
		Defaults: memory.Settings{Secrets: &policy, MaxFileBytes: new(int64(memory.MaxFileBytes))},
		Screener: crowded{others: l.others},
		Report: func(_ context.Context, _ string, found []memory.SecretReport) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reported = append(l.reported, found...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Memory = m
	return l
}

// want checks what was reported since the last time.
func (l *late) want(t *testing.T, want ...memory.SecretReport) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if diff := cmp.Diff(want, l.reported); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	l.reported = nil
}

func report(path, rule string, line int64) memory.SecretReport {
	return memory.SecretReport{Path: path, Rule: rule, Line: line, Done: memory.SecretsReport}
}

func create(i int, text string) memory.Command {
	return memory.Create{Path: fmt.Sprintf("/memories/%d", i), FileText: text}
}

// Where secrets are only reported, no answer waits for the searches of others, whatever is searched behind it.
func TestReport_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, memory.SecretsReport)
		begin := time.Now()
		result, err := l.Batch(t.Context(), namespace, []memory.BatchCommand{
			{Command: create(0, "\nKEY-0001 and more")},
			{Command: create(1, "KEY-0002")}, // small
			{Command: create(2, "KEY-0003 and more")},
		}, "")
		if err != nil || result.FailedIndex >= 0 {
			t.Fatalf("batch: %+v, %v", result, err)
		}
		if took := time.Since(begin); took != 100*time.Millisecond {
			t.Errorf("the answer took %v, want 100ms", took)
		}
		l.want(t, report("/memories/1", "key", 1))
		l.others <- struct{}{}
		l.want(t)
		l.others <- struct{}{}
		l.want(t, report("/memories/0", "key", 2), report("/memories/2", "key", 1))

		// One that has its turn in time is reported before the answer.
		go func() {
			time.Sleep(99 * time.Millisecond)
			l.others <- struct{}{}
		}()
		must(t, l.Memory, create(3, "KEY-0004 and more"))
		l.want(t, report("/memories/3", "key", 1))
		l.EndReports()
	})
}

// The context of a call that is searched behind its answer may be done.
func TestReport_LateCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, memory.SecretsReport)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := l.Do(ctx, namespace, create(0, "KEY-0001 and more"), memory.Call{}); err != nil {
			t.Fatal(err)
		}
		cancel()
		l.others <- struct{}{}
		l.want(t, report("/memories/0", "key", 1))
	})
}

// What there is no room for is reported as not searched, for each namespace by itself.
func TestReport_LateBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, memory.SecretsReport)
		big := "KEY-0001 " + strings.Repeat("x", 3<<20)
		var unsearched, found []memory.SecretReport
		do := func(namespace string, i int, text string) bool {
			if _, err := l.Do(t.Context(), namespace, create(i, text), memory.Call{}); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.reported) == len(unsearched)
		}
		for i := range 4 { // One namespace has room for two.
			if !do("a", i, big) {
				unsearched = append(unsearched, report(fmt.Sprintf("/memories/%d", i), "unsearched", 1))
			} else {
				found = append(found, report(fmt.Sprintf("/memories/%d", i), "key", 1))
			}
		}
		if len(found) != 2 {
			t.Errorf("room for %d texts of one namespace, want 2", len(found))
		}
		huge := big + strings.Repeat("x", memory.MaxFileBytes-len(big))
		for i := 4; i < 12; i++ { // Together there is room for some.
			if namespace := fmt.Sprint("n", i); !do(namespace, i, huge) {
				unsearched = append(unsearched, report(fmt.Sprintf("/memories/%d", i), "unsearched", 1))
			} else {
				found = append(found, report(fmt.Sprintf("/memories/%d", i), "key", 1))
			}
		}
		if len(found) != 2+7 {
			t.Errorf("room for %d texts, want 9", len(found))
		}
		for range found {
			l.others <- struct{}{}
		}
		l.want(t, slices.Concat(unsearched, found)...)

		// There is room again.
		must(t, l.Memory, create(20, "KEY-0002 and more"))
		l.others <- struct{}{}
		l.want(t, report("/memories/20", "key", 1))
	})
}

// At the end, what was not searched is reported as such, and nothing is searched any more.
func TestEndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, memory.SecretsReport)
		l.EndReports()
		l = newLate(t, memory.SecretsReport)
		for i := range 2 {
			must(t, l.Memory, create(i, "KEY-0001 and more"))
		}
		l.EndReports()
		l.want(t, report("/memories/0", "unsearched", 1), report("/memories/1", "unsearched", 1))
		must(t, l.Memory, create(2, "KEY-0001 and more"))
		l.want(t, report("/memories/2", "unsearched", 1))
		l.EndReports()
	})
}

// Where secrets are masked or refused, a change waits for its turn as long as its caller does.
func TestTurn_Refuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, memory.SecretsRefuse)
		go func() {
			time.Sleep(time.Minute)
			l.others <- struct{}{}
			l.others <- struct{}{} // to see whether it could be masked
		}()
		result := do(t, l.Memory, create(0, "KEY-0001 and more"))
		if result.Reason != memory.ReasonSecretRefused {
			t.Errorf("got %+v, want that it is refused", result)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Do(ctx, namespace, create(0, "fine, and no more"), memory.Call{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that there was no time", err)
		}
	})
}

// A long secret is found in however many parts it comes.
func TestSecrets_LongParts(t *testing.T) {
	line := strings.Repeat("aB3dE5gH", 8) + "\n"
	pem := func(size int) string {
		return "-----BEGIN RSA PRIVATE" + " KEY-----\n" + strings.Repeat(line, size/len(line)) +
			"-----END RSA PRIVATE" + " KEY-----"
	}
	jwt := "eyJ" + "hbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJ" + strings.Repeat("zdWIiOiI3MTk0NmYxZTk2", 450) + "." +
		strings.Repeat("Q5x_aB3d", 43)
	screener := unhurried()
	const part = 100
	type parts struct{ name, before, after string }
	var tests []parts
	for _, size := range []int{5 << 10, 9 << 10, 16000} {
		key := pem(size)
		tests = append(tests,
			parts{fmt.Sprintf("head of a PEM of %d bytes", size), "x " + key[:part], key[part:]},
			parts{fmt.Sprintf("tail of a PEM of %d bytes", size), "x " + key[:len(key)-part], key[len(key)-part:]})
	}
	tests = append(tests, parts{"head of a JWT of 10 KB", "x " + jwt[:part], jwt[part:]})
	for _, test := range tests {
		for _, policy := range []memory.SecretsPolicy{memory.SecretsMask, memory.SecretsRefuse} {
			for _, rest := range []string{test.before, test.after} {
				t.Run(fmt.Sprintf("%s/%d", test.name, policy), func(t *testing.T) {
					s := newScreened(t, policy, memkv.New(), screener)
					text := test.after
					before := rest + "<MARK>"
					if rest == test.after {
						text, before = test.before, "<MARK>"+rest
					}
					must(t, s.Memory, memory.Create{Path: editedPath, FileText: before})
					result := do(t, s.Memory, replace("<MARK>", text))
					want := "x [REDACTED]"
					if policy == memory.SecretsRefuse {
						want = before
					}
					if got := s.stored(t, editedPath); got != want {
						t.Errorf("stored %d bytes that begin with %.60q, want %.60q", len(got), got, want)
					}
					if refused := result.Reason == memory.ReasonSecretRefused; refused != (policy == memory.SecretsRefuse) {
						t.Errorf("refused: %t", refused)
					}
				})
			}
		}
	}
}
