package screen

import (
	"context"
	"slices"
	"sync"
)

// turns shares out the scans of large texts. A namespace has one at a time, and those that wait get theirs in rotation,
// however many texts each has: so none waits for more than one scan of each of the others.
type turns struct {
	mu      sync.Mutex
	free    int
	taken   map[string]bool            // the namespaces that have one
	waiting map[string][]chan struct{} // for each namespace those who wait, in their order; closed when it is their turn
	order   []string                   // the namespaces that wait, the next one first
}

func newTurns(n int) *turns {
	return &turns{free: n, taken: make(map[string]bool), waiting: make(map[string][]chan struct{})}
}

// take waits for a turn. One that is free is taken even if ctx is done.
func (t *turns) take(ctx context.Context, namespace string) error {
	t.mu.Lock()
	if t.free > 0 && !t.taken[namespace] { // Whoever waits cannot have it.
		t.free--
		t.taken[namespace] = true
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	if len(t.waiting[namespace]) == 0 {
		t.order = append(t.order, namespace)
	}
	t.waiting[namespace] = append(t.waiting[namespace], turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting[namespace], turn); i >= 0 {
		t.leave(namespace, i)
		return ctx.Err()
	}
	return nil // It was given in this moment.
}

// give gives a turn back.
func (t *turns) give(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	delete(t.taken, namespace)
	for t.free > 0 {
		i := slices.IndexFunc(t.order, func(namespace string) bool { return !t.taken[namespace] })
		if i < 0 {
			return
		}
		next := t.order[i]
		turn := t.waiting[next][0]
		t.leave(next, 0)
		if len(t.waiting[next]) > 0 { // It comes again after all others.
			t.order = append(slices.Delete(t.order, i, i+1), next)
		}
		t.free--
		t.taken[next] = true
		close(turn)
	}
}

// leave takes out one who waits.
func (t *turns) leave(namespace string, i int) {
	t.waiting[namespace] = slices.Delete(t.waiting[namespace], i, i+1)
	if len(t.waiting[namespace]) == 0 {
		delete(t.waiting, namespace)
		t.order = slices.DeleteFunc(t.order, func(n string) bool { return n == namespace })
	}
}
