package claudetest

import (
	"context"
	"fmt"
	"sync"
)

// Model is what answers in the place of Claude. Respond is called once for every request that is valid and that no
// failure was planned for, and by several goroutines at once where there are several clients. ctx ends when the client
// goes away or the API is closed. An error is a mistake of the test: it is reported, and the request is answered with
// an api_error (status 500) that holds its text. For an error that the agent is to see, return a Turn with a Failure.
type Model interface {
	Respond(ctx context.Context, req *Request) (Turn, error)
}

// ModelFunc is a function as a Model.
type ModelFunc func(ctx context.Context, req *Request) (Turn, error)

// Respond calls f.
func (f ModelFunc) Respond(ctx context.Context, req *Request) (Turn, error) { return f(ctx, req) }

// Script is a Model that plays turns in order, one for each request that reaches it. Where the requests come from
// several clients, the order among them is theirs. A request to summarize the conversation takes the next turn only if
// that has a Summary; otherwise it gets DefaultSummary.
func Script(turns ...Turn) *Scripted { return &Scripted{turns: turns} }

// Scripted is the Model that Script makes. It is safe for concurrent use.
type Scripted struct {
	mu    sync.Mutex
	turns []Turn
	next  int
}

// Respond returns the next turn, or an error if there is none.
func (s *Scripted) Respond(_ context.Context, req *Request) (Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.next == len(s.turns)
	if req.Compacting && (last || !s.turns[s.next].hasSummary()) {
		return Turn{}, nil
	}
	if last {
		return Turn{}, fmt.Errorf("the script has %d turns, and this request asks for one more", len(s.turns))
	}
	s.next++
	return s.turns[s.next-1], nil
}

// Remaining returns how many turns were not asked for yet.
func (s *Scripted) Remaining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns) - s.next
}
