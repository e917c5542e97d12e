package main

import (
	"context"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// idleTime is how long a memoryd does nothing before its memory is looked at.
const idleTime = time.Second

// runIdle measures how long a memoryd with a large store takes to start, and how much memory it takes then.
func runIdle(ctx context.Context, b *bench) error {
	m, err := b.startOn(ctx, filesFixture(largeStore))
	if err != nil {
		return err
	}
	subject := trial.SubjectResult{Name: nameLargeStore}
	for range b.options.slices {
		if err := m.Stop(); err != nil {
			return err
		}
		if m, err = b.startMemorydOn(ctx, m.data, unlimited...); err != nil {
			return err
		}
		figures := trial.Figures{trial.Start: m.took.Seconds()}
		if err := pause(ctx, idleTime); err != nil {
			return err
		}
		usage, err := m.Usage()
		if err != nil {
			return err
		}
		if usage != nil {
			figures[trial.AnonBytes] = usage.AnonBytes
		}
		subject.Slices = append(subject.Slices, figures)
	}
	subject.Figures = trial.Medians(subject.Slices)
	b.report.Cases = append(b.report.Cases, trial.Result{
		Name: caseIdle, Subjects: []trial.SubjectResult{subject},
	})
	return nil
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
