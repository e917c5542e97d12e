package main

import (
	"context"
	"fmt"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// editBytes is the size of the file that is edited.
const editBytes = 1_000_000

// runEdit measures str_replace in the middle of a large file.
func runEdit(ctx context.Context, b *bench) error {
	m, control, err := b.startTwins(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*service{m, control} {
		text := newText(0, editBytes-len(mark(0)))
		text = text[:len(text)/2] + mark(0) + text[len(text)/2:]
		if err := s.create(ctx, editNamespace, editPath, text); err != nil {
			return err
		}
	}
	return b.compare(ctx, trial.Case{Name: caseEdit, Callers: 1, Subjects: []trial.Subject{
		b.traced(m, nameMemoryd, m.editor()), b.traced(control, nameControl, control.editor()),
	}})
}

const (
	editNamespace = "bench/edit"
	editPath      = "/memories/large.md"
)

// mark is what is replaced. All have the same length.
func mark(n int) string { return fmt.Sprintf("[edited %9d times]", n) }

// editor returns a call, for one caller, that replaces a mark by the next.
func (s *service) editor() func(ctx context.Context, caller int) error {
	n := 0
	return func(ctx context.Context, _ int) error {
		req := &memoryv1.StrReplaceRequest{Namespace: editNamespace, Path: editPath, OldStr: mark(n), NewStr: mark(n + 1)}
		n++
		return failed(s.StrReplace(ctx, req))
	}
}
