package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// toolCallers is how many use the tool of the TypeScript SDK at once.
const toolCallers = 8

// tool is the local-disk memory tool of the TypeScript SDK in a process of node. It is called there, without any
// transport: jobs go in, and what they measured comes out.
type tool struct {
	server
	mu      sync.Mutex
	answers *bufio.Scanner
}

// toolJob is a line to the script.
type toolJob struct {
	Do      string   `json:"do"` // fill, view, list or create
	Count   int      `json:"count,omitempty"`
	Callers int      `json:"callers,omitempty"`
	Millis  float64  `json:"millis,omitempty"`
	Texts   []string `json:"texts,omitempty"`
}

// toolAnswer is a line from it. Times are in milliseconds.
type toolAnswer struct {
	Calls   int     `json:"calls"`
	Elapsed float64 `json:"elapsed"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Error   string  `json:"error"`
}

// startTool starts node with the tool on an empty directory.
func (b *bench) startTool(ctx context.Context) (*tool, error) {
	node, err := installed("node")
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(b.options.node, "node_modules", "@anthropic-ai", "sdk", "package.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: run `npm ci` in %s", errNotInstalled, b.options.node)
	}
	if err != nil {
		return nil, err
	}
	var sdk struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(manifest, &sdk); err != nil {
		return nil, fmt.Errorf("read the version of the SDK: %w", err)
	}
	if err := b.version(ctx, "Node.js", node, "--version"); err != nil {
		return nil, err
	}
	b.report.Versions[nameTool] = sdk.Version
	name, dir, err := b.newDir("tool")
	if err != nil {
		return nil, err
	}
	process, err := child.Start(child.Options{
		Name: name, Dir: b.dir, Pipes: true, Command: []string{node, filepath.Join(b.options.node, "tool.mjs"), dir},
	})
	if err != nil {
		return nil, err
	}
	b.onStop(func() error { return errors.Join(process.Stdin.Close(), process.Stop()) })
	t := &tool{server: server{Process: process, data: dir}, answers: bufio.NewScanner(process.Stdout)}
	_, err = t.do(ctx, toolJob{Do: "fill", Count: directoryFiles, Texts: texts})
	return t, err
}

// do has a job done.
func (t *tool) do(ctx context.Context, job toolJob) (toolAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = t.Stop() })()
	line, err := json.Marshal(job)
	if err != nil {
		return toolAnswer{}, err
	}
	if _, err := t.Stdin.Write(append(line, '\n')); err != nil {
		return toolAnswer{}, errors.Join(err, ctx.Err())
	}
	if !t.answers.Scan() {
		return toolAnswer{}, errors.Join(errors.New("the tool ended"), t.answers.Err(), ctx.Err())
	}
	var answer toolAnswer
	if err := json.Unmarshal(t.answers.Bytes(), &answer); err != nil {
		return toolAnswer{}, fmt.Errorf("read the answer of the tool: %w", err)
	}
	if answer.Error != "" {
		return toolAnswer{}, fmt.Errorf("the tool failed: %s", answer.Error)
	}
	return answer, nil
}

// subject is the tool as a subject.
func (t *tool) subject(do string) trial.Subject {
	return trial.Subject{Name: nameTool, Other: true, Server: &t.server, Run: func(
		ctx context.Context, callers int, d time.Duration,
	) (trial.Sample, error) {
		answer, err := t.do(ctx, toolJob{Do: do, Callers: callers, Millis: float64(d) / float64(time.Millisecond)})
		return trial.Sample{
			Calls: answer.Calls, Elapsed: millis(answer.Elapsed), P50: millis(answer.P50), P99: millis(answer.P99),
		}, err
	}}
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// runTool compares memoryd with the tool of the TypeScript SDK.
func runTool(ctx context.Context, b *bench) error {
	t, err := b.startTool(ctx)
	if errors.Is(err, errNotInstalled) {
		b.missing(nameTool, err)
		return nil
	}
	if err != nil {
		return err
	}
	m, control, err := b.startTwins(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*service{m, control} {
		if err := s.fill(ctx, viewNamespace, directoryFiles, fileBytes, pathOf); err != nil {
			return err
		}
	}
	list := func(s *service) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error { return s.view(ctx, viewNamespace, pathDirectory(0)) }
	}
	const created = "bench/tool"
	for _, c := range []trial.Case{
		{Name: caseToolView, Subjects: []trial.Subject{
			m.subject(nameMemoryd, b.viewer(m)), control.subject(nameControl, b.viewer(control)), t.subject("view"),
		}},
		{Name: caseToolList, Subjects: []trial.Subject{
			m.subject(nameMemoryd, list(m)), control.subject(nameControl, list(control)), t.subject("list"),
		}},
		{Name: caseToolCreate, Subjects: []trial.Subject{
			m.subject(nameMemoryd, m.creator(created)), control.subject(nameControl, control.creator(created)),
			t.subject("create"),
		}},
	} {
		c.Callers = toolCallers
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
