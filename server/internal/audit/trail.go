package audit

import (
	"context"
	"sync"
)

// Trail collects what one call did, from the innermost layer outwards: the layers within say what they know, and the
// outermost one writes it when the call has ended. All methods may be called on a nil Trail, which keeps nothing, and
// are safe for concurrent use.
type Trail struct {
	mu     sync.Mutex
	common Event
	events []Event
}

// ContextKey is the type of the key under which a context has its trail, for contexts that know theirs themselves.
type ContextKey struct{}

// NewContext returns a context with a new trail.
func NewContext(ctx context.Context) (context.Context, *Trail) {
	t := new(Trail)
	return context.WithValue(ctx, ContextKey{}, t), t
}

// FromContext returns the trail of the context, nil where there is none.
func FromContext(ctx context.Context) *Trail {
	t, _ := ctx.Value(ContextKey{}).(*Trail)
	return t
}

// SetPrincipal says who calls, and what they are known by.
func (t *Trail) SetPrincipal(name, credential string) {
	t.set(func(e *Event) { e.Principal, e.Credential = name, credential })
}

// SetPeer says from which address the call comes.
func (t *Trail) SetPeer(address string) { t.set(func(e *Event) { e.Peer = address }) }

// SetMethod says what is called.
func (t *Trail) SetMethod(name string) { t.set(func(e *Event) { e.Method = name }) }

// SetNamespace says which namespace the call is about.
func (t *Trail) SetNamespace(name string) { t.set(func(e *Event) { e.Namespace = name }) }

// SetSession says in which session the call is made.
func (t *Trail) SetSession(name string) { t.set(func(e *Event) { e.Session = name }) }

// SetRequestID says under which request id the call is made.
func (t *Trail) SetRequestID(id string) { t.set(func(e *Event) { e.RequestID = id }) }

// SetXRequestID says what id finds the call again.
func (t *Trail) SetXRequestID(id string) { t.set(func(e *Event) { e.XRequestID = id }) }

func (t *Trail) set(change func(*Event)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.common)
}

// Principal returns who calls, "" where that is not known.
func (t *Trail) Principal() string { return t.Common().Principal }

// Common returns what was said about the call as a whole: an event without an outcome, for a call of which nothing else
// is known.
func (t *Trail) Common() Event {
	if t == nil {
		return Event{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.common
}

// Add adds something that the call did, or was refused. What the event leaves out is what was said about the call as a
// whole, before or later.
func (t *Trail) Add(e Event) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// HasEvents tells whether anything was added.
func (t *Trail) HasEvents() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events) > 0
}

// Events returns what was added, in that order.
func (t *Trail) Events() []Event {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var events []Event
	for _, e := range t.events {
		events = append(events, e.within(t.common))
	}
	return events
}

// within returns the event with what it leaves out and the call knows.
func (e Event) within(call Event) Event {
	for _, f := range []struct{ field, common *string }{
		{&e.Principal, &call.Principal},
		{&e.Credential, &call.Credential},
		{&e.Peer, &call.Peer},
		{&e.Method, &call.Method},
		{&e.Namespace, &call.Namespace},
		{&e.Session, &call.Session},
		{&e.RequestID, &call.RequestID},
		{&e.XRequestID, &call.XRequestID},
	} {
		if *f.field == "" {
			*f.field = *f.common
		}
	}
	return e
}
