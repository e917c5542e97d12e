package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Screener finds what looks like a secret in texts. It is used by many goroutines at once.
type Screener interface {
	// Turn waits until a text of a namespace may be searched, by its size in bytes, so that the texts of one do not hold
	// up those of others. end is called once it was. An error is the context's.
	Turn(ctx context.Context, namespace string, size int) (end func(), err error)
	// Scan returns what it finds in a text, in the order of the places. The text may have bytes that are not UTF-8. It
	// bounds the time that it takes; what there was no time for is Unsearched.
	Scan(ctx context.Context, text string) ([]SecretFinding, error)
}

// SecretFinding is a place in a text that looks like a secret. It does not have the secret itself.
type SecretFinding struct {
	// Rule names what found it.
	Rule string
	// Line is the line in which the secret begins, from 1.
	Line int
	// Start and End are the place, in bytes: the secret with what tells that it is one.
	Start, End int
	// SecretStart and SecretEnd are where the secret itself is.
	SecretStart, SecretEnd int
	// ReportOnly means that it may as well be something else, such as a hash: it is written as it is.
	ReportOnly bool
	// Unsearched means that it is no finding: from Start on, the text is too laborious to search. It can be reported and
	// refused, and not masked.
	Unsearched bool
}

// SecretReport tells of a secret that was found in a text that was written, or was to be.
type SecretReport struct {
	Path string
	Rule string
	Line int64 // of the file, from 1
	// Done is what was done: SecretsReport that it was written, SecretsMask that it was masked, SecretsRefuse that
	// nothing was written.
	Done SecretsPolicy
}

// Texts are searched outside of transactions, since a transaction keeps all other writers waiting.
//
// Where secrets are only reported, the transaction notes what it writes (see tree.screen), and that is searched once it
// is committed; and if that would have to wait for others, once the change is answered (see backlog). Where they are
// masked or refused, it needs to know what is in the text that it is about to write. What
// it does not know yet it notes too, goes on to its end as if there was nothing, so that one run notes the texts of all
// commands, and is not committed: errUnscreened. Then the texts are searched, and it runs again. A text is known by its
// hash, so whatever others write meanwhile, no text is written that was not searched; and only around the place that
// is edited does it count what others write.
//
// A namespace that is known to mask or refuse has its first run in a View (see rehearsal), which keeps nobody waiting.

// errUnscreened means that a text has to be searched before it can be written.
var errUnscreened = errors.New("a text was not searched for secrets")

// screening is what one call knows of the texts that it writes. nil is that nobody searches them.
type screening struct {
	verdicts map[[sha256.Size]byte]*verdict // of those that were searched, by the hash of the window
	texts    []screenedText                 // of the last run, in the order in which it wrote them
}

// screenedText is a text that was to be written where secrets are not ignored.
type screenedText struct {
	path    Path
	window  window
	policy  SecretsPolicy
	verdict *verdict // nil where it was not searched
}

func (m *Memory) newScreening() *screening {
	if m.screener == nil {
		return nil
	}
	return &screening{}
}

// begin begins a run of the transaction.
func (s *screening) begin() {
	if s != nil {
		s.texts = nil
	}
}

// outcome is what a run of the transaction comes to that would have come to err. Neither success nor failure is for
// certain while a text is not searched.
func (s *screening) outcome(err error) error {
	var f *failure
	if s != nil && (err == nil || errors.As(err, &f)) {
		for _, text := range s.texts {
			if text.policy != SecretsReport && text.verdict == nil {
				return errUnscreened
			}
		}
	}
	return err
}

// screen notes a text that is about to be written, and returns what may be written instead, with what there is to say
// about that.
func (t *tree) screen(p Path, c change) (masked change, note string, f *failure) {
	s, policy := t.trace.screening, *t.settings.Secrets
	if s == nil || policy == SecretsOff || isBinary(c.text) {
		return c, "", nil
	}
	text := screenedText{path: p, window: c.window(), policy: policy}
	if policy != SecretsReport {
		text.verdict = s.verdicts[text.window.hash()]
	}
	s.texts = append(s.texts, text)
	v := text.verdict
	if v == nil || len(v.secrets) == 0 {
		return c, "", nil
	}
	rule, line := v.secrets[0].Rule, text.window.line(v.secrets[0].Line)
	if policy == SecretsRefuse || v.masked == nil {
		return c, "", failSecret(rule, line)
	}
	return text.window.whole(c, *v.masked), noteMasked(v.replaced, rule, line), nil
}

// search searches the texts that hold up the transaction.
func (m *Memory) search(ctx context.Context, namespace string, s *screening) error {
	known := s.verdicts
	s.verdicts = make(map[[sha256.Size]byte]*verdict)
	for _, text := range s.texts {
		if text.policy == SecretsReport {
			continue
		}
		hash := text.window.hash()
		v := known[hash]
		if v == nil {
			var err error
			if v, err = judge(ctx, newScanner(m.screener, namespace, text.window.change)); err != nil {
				return err
			}
		}
		s.verdicts[hash] = v
	}
	return nil
}

// rehearse runs a transaction without its writes.
func (m *Memory) rehearse(ctx context.Context, namespace string, fn func(kv.Tx) error) error {
	return m.store.View(ctx, namespace, func(r kv.Reader) error { return fn(rehearsal{r}) })
}

// rehearsal is the transaction of a single command, which reads nothing that it has written.
type rehearsal struct{ kv.Reader }

// Put implements kv.Tx.
func (rehearsal) Put(_, _ []byte) error { return nil }

// Delete implements kv.Tx.
func (rehearsal) Delete([]byte) error { return nil }

// rehearses tells whether a call is better rehearsed than begun in vain.
func (m *Memory) rehearses(namespace string, steps []step) bool {
	if m.screener == nil || len(steps) != 1 {
		return false
	}
	switch steps[0].cmd.(type) {
	case Create, Put, StrReplace, Insert:
	default:
		return false
	}
	r, ok := m.recents.Get(namespace)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	policy := r.settings.Secrets
	return policy != nil && (*policy == SecretsMask || *policy == SecretsRefuse)
}

// isBinary tells whether the bytes of a file are none that are searched for secrets: images, and what has a zero byte
// near its beginning and is not UTF-8.
func isBinary(text string) bool {
	const head = 8000 // as git does
	return imageType([]byte(text[:min(len(text), 8)])) != "" ||
		strings.IndexByte(text[:min(len(text), head)], 0) >= 0 && !utf8.ValidString(text)
}
