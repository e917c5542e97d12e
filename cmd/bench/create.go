package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// nameShared is memoryd as a subject where all callers create in the same namespace.
const nameShared = "memoryd, one namespace"

// sharedCreator returns a call that creates files, all of them in the same namespace until that is full.
func (s *service) sharedCreator(prefix string) func(ctx context.Context, caller int) error {
	var next atomic.Int64
	return func(ctx context.Context, _ int) error {
		n := int(next.Add(1))
		return s.create(ctx, fmt.Sprintf("%s/shared/%d", prefix, n/namespaceFiles), pathOf(n%namespaceFiles), textOf(n))
	}
}

// runCreate compares creates of files with a raw file and with writes of peers.
func runCreate(ctx context.Context, b *bench) error {
	m, control, err := b.startTwins(ctx)
	if err != nil {
		return err
	}
	raw, err := b.startReference(ctx, m)
	if err != nil {
		return err
	}
	peers, err := b.startPeers(ctx)
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 8, 64, 256} {
		prefix := fmt.Sprintf("bench/create-%d", callers)
		c := trial.Case{Name: caseCreate, Callers: callers, Subjects: []trial.Subject{
			b.traced(m, nameMemoryd, m.creator(prefix)), b.traced(control, nameControl, control.creator(prefix)),
			other(b.traced(raw, nameRaw, raw.creator(prefix))), b.traced(m, nameShared, m.sharedCreator(prefix)),
		}}
		for _, p := range peers {
			c.Subjects = append(c.Subjects, p.subject(p.creator(prefix)))
		}
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
