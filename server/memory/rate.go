package memory

import (
	"time"

	"golang.org/x/time/rate"
)

// admit counts a call of a namespace and returns why it is refused, nil where it is not. The limit is the one that the
// last transaction has read, so that a call which is refused costs no transaction, and a namespace never seen is let
// through once. A refused call uses up nothing.
func (m *Memory) admit(namespace string) *failure {
	r, _ := m.recents.Get(namespace)
	return r.admit(m.now)
}

// admit is Memory.admit; nil is a namespace never seen.
func (r *recent) admit(now func() time.Time) *failure {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil || r.calls.AllowN(now(), 1) {
		return nil
	}
	// At one call a second or more, the next passes within a second.
	return fail(ReasonTooManyCalls, "Error: Too many memory calls. Wait %d seconds and try again.", 1)
}

// learn takes in the settings that a transaction has read.
func (r *recent) learn(settings *Settings, now func() time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settings = *settings
	limit := *settings.CallsPerSecond
	switch {
	case limit == 0:
		r.calls = nil
	case r.calls == nil:
		r.calls = rate.NewLimiter(rate.Limit(limit), int(limit))
	case r.calls.Limit() != rate.Limit(limit):
		at := now()
		r.calls.SetLimitAt(at, rate.Limit(limit))
		r.calls.SetBurstAt(at, int(limit))
	}
}
