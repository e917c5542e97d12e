package screen

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// queue is a number of turns and those who wait for them.
type queue struct {
	t *testing.T
	*turns
	mu    sync.Mutex
	given []string
}

// wait waits for a turn in the background.
func (q *queue) wait(ctx context.Context, namespace string) {
	go func() {
		if err := q.take(ctx, namespace); err != nil {
			if !errors.Is(err, context.Canceled) {
				q.t.Errorf("take of %s: %v", namespace, err)
			}
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.given = append(q.given, namespace)
	}()
	synctest.Wait()
}

// want checks the turns that were given since the last time.
func (q *queue) want(namespaces ...string) {
	q.t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.given, namespaces) {
		q.t.Errorf("turns of %q, want %q", q.given, namespaces)
	}
	q.given = nil
}

func TestTurns_Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue{t: t, turns: newTurns(1)}
		for _, namespace := range []string{"a", "a", "a", "a", "b", "c", "b"} {
			q.wait(t.Context(), namespace)
		}
		q.want("a")
		for i, next := range []string{"a", "b", "c", "a", "b", "a"} {
			q.give([]string{"a", "a", "b", "c", "a", "b"}[i])
			q.want(next)
		}
		q.give("a")
		q.want()
		if len(q.waiting)+len(q.order)+len(q.taken) > 0 || q.free != 1 {
			t.Errorf("left: %+v", q.turns)
		}
	})
}

// However many turns there are, a namespace has one.
func TestTurns_OneEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue{t: t, turns: newTurns(3)}
		for _, namespace := range []string{"a", "a", "b"} {
			q.wait(t.Context(), namespace)
		}
		q.want("a", "b")
		q.give("b")
		q.want()
		q.give("a")
		q.want("a")
		q.give("a")
	})
}

func TestTurns_GivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue{t: t, turns: newTurns(1)}
		ctx, cancel := context.WithCancel(t.Context())
		q.wait(t.Context(), "a")
		q.wait(ctx, "b")
		q.wait(t.Context(), "b")
		q.wait(ctx, "c")
		q.wait(t.Context(), "d")
		cancel()
		q.want("a")
		q.give("a")
		q.want("b")
		q.give("b")
		q.want("d")
		q.give("d")
		q.wait(ctx, "c") // It is free, so nobody has to wait.
		q.want("c")
		q.give("c")
		if len(q.waiting)+len(q.order)+len(q.taken) > 0 || q.free != 1 {
			t.Errorf("left: %+v", q.turns)
		}
	})
}

// A turn that is given in the moment in which it is given up is not lost.
func TestTurns_GivenUpAsGiven(t *testing.T) {
	turns := newTurns(1)
	for range 2000 {
		if err := turns.take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if turns.take(ctx, "b") == nil {
				turns.give("b")
			}
		})
		both.Go(cancel)
		turns.give("a")
		both.Wait()
	}
	if turns.free != 1 || len(turns.taken)+len(turns.order)+len(turns.waiting) > 0 {
		t.Errorf("left: %+v", turns)
	}
}
