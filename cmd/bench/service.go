package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// service is a server of MemoryService that runs: a memoryd, or the reference.
type service struct {
	server
	*client.Client
	took time.Duration // from exec until its health was good
}

// subject is the service as a subject whose system calls are not counted.
func (s *service) subject(name string, call func(ctx context.Context, caller int) error) trial.Subject {
	return trial.Subject{Name: name, Run: trial.Calls(call), Server: &s.server}
}

// traced is the service as a subject whose system calls are counted.
func (b *bench) traced(m *service, name string, call func(ctx context.Context, caller int) error) trial.Subject {
	s := m.subject(name, call)
	s.Trace = func(ctx context.Context) (*child.Tracer, error) { return m.Trace(ctx, b.dir) }
	return s
}

// view views a path.
func (s *service) view(ctx context.Context, namespace, path string) error {
	return failed(s.View(ctx, &memoryv1.ViewRequest{Namespace: namespace, Path: path}))
}

// create makes a file.
func (s *service) create(ctx context.Context, namespace, path, text string) error {
	return failed(s.Create(ctx, &memoryv1.CreateRequest{Namespace: namespace, Path: path, FileText: text}))
}

// failed returns the error of a call, which may be in its result.
func failed(resp interface{ GetResult() *memoryv1.ToolResult }, err error) error {
	if err != nil {
		return err
	}
	if result := resp.GetResult(); result.GetIsError() {
		return fmt.Errorf("%s: %v", result.GetReason(), result.GetContent())
	}
	return nil
}

// namespaceFiles is how many files are made in a namespace before the next one is taken: fewer than a namespace may
// have by default.
const namespaceFiles = 4_000

// maxCallers is how many callers there are at most.
const maxCallers = 256

// creator returns a call that creates files. Every caller has namespaces of its own, as agents do.
func (s *service) creator(prefix string) func(ctx context.Context, caller int) error {
	var next [maxCallers]int
	return func(ctx context.Context, caller int) error {
		n := next[caller]
		next[caller]++
		namespace := fmt.Sprintf("%s/caller-%d/%d", prefix, caller, n/namespaceFiles)
		return s.create(ctx, namespace, pathOf(n%namespaceFiles), textOf(n))
	}
}

// batchFiles is how many files fill makes in one transaction.
const batchFiles = 64

// fill makes files in a namespace, numbered from 0.
func (s *service) fill(ctx context.Context, namespace string, count, size int, path func(number int) string) error {
	for first := 0; first < count; first += batchFiles {
		var commands []*memoryv1.ApplyCommand
		for n := first; n < min(first+batchFiles, count); n++ {
			text := textOf(n)
			if size != fileBytes {
				text = newText(uint64(n%len(texts)), size)
			}
			input, err := json.Marshal(map[string]string{"command": "create", "path": path(n), "file_text": text})
			if err != nil {
				return err
			}
			commands = append(commands, &memoryv1.ApplyCommand{Input: string(input)})
		}
		if err := failed(s.Apply(ctx, &memoryv1.ApplyRequest{Namespace: namespace, Commands: commands})); err != nil {
			return fmt.Errorf("fill %s: %w", namespace, err)
		}
	}
	return nil
}
