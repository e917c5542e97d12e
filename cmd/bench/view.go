package main

import (
	"context"
	"math/rand/v2"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

const viewNamespace = "bench/view"

// picker returns for every caller numbers below n, without order.
func (b *bench) picker(n int) func(caller int) int {
	var random [maxCallers]*rand.Rand
	for i := range random {
		random[i] = rand.New(rand.NewPCG(b.options.seed, uint64(i))) //nolint:gosec // The order is to be the same again.
	}
	return func(caller int) int { return random[caller].IntN(n) }
}

// viewer returns a call that views one of the files that fill made.
func (b *bench) viewer(m *service) func(ctx context.Context, caller int) error {
	pick := b.picker(directoryFiles)
	return func(ctx context.Context, caller int) error { return m.view(ctx, viewNamespace, pathOf(pick(caller))) }
}

// runView compares views of files with a bare RPC that answers with the same bytes, and with reads of peers.
func runView(ctx context.Context, b *bench) error {
	m, control, err := b.startTwins(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*service{m, control} {
		if err := s.fill(ctx, viewNamespace, directoryFiles, fileBytes, pathOf); err != nil {
			return err
		}
	}
	echo, err := b.startReference(ctx, m)
	if err != nil {
		return err
	}
	peers, err := b.startPeers(ctx)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if err := p.fill(ctx, directoryFiles); err != nil {
			return err
		}
	}
	for _, callers := range []int{1, 8, 64} {
		c := trial.Case{Name: caseView, Callers: callers, Subjects: []trial.Subject{
			m.subject(nameMemoryd, b.viewer(m)), control.subject(nameControl, b.viewer(control)),
			other(echo.subject(nameEcho, b.viewer(echo))),
		}}
		for _, p := range peers {
			pick := b.picker(directoryFiles)
			c.Subjects = append(c.Subjects, p.subject(func(ctx context.Context, caller int) error {
				return p.get(ctx, pathOf(pick(caller)))
			}))
		}
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
