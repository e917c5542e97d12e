package memory_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/memory/memtest"
)

const namespace = "test"

// testTime is what the clock of the tests says.
var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tester is what a test and a property test have in common.
type tester interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// newMemory returns a Memory on an empty store.
func newMemory(t tester, defaults memory.Settings) *memory.Memory {
	t.Helper()
	return newMemoryAt(t, defaults, func() time.Time { return testTime })
}

// newMemoryAt returns a Memory on an empty store, with a clock.
func newMemoryAt(t tester, defaults memory.Settings, now func() time.Time) *memory.Memory {
	t.Helper()
	return newMemoryWith(t, memory.Options{Defaults: defaults, Now: now})
}

// newMemoryWith returns a Memory on an empty store, with options.
func newMemoryWith(t tester, opts memory.Options) *memory.Memory {
	t.Helper()
	store := kvtest.Harsh(memkv.New())
	m, err := memory.New(store, opts)
	if err != nil {
		t.Fatalf("new memory: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Check(context.Background(), namespace); err != nil {
			t.Errorf("check: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return m
}

// do executes a command that must not give an error.
func do(t tester, m *memory.Memory, cmd memory.Command) memory.Result {
	t.Helper()
	result, err := m.Do(t.Context(), namespace, cmd, memory.Call{})
	if err != nil {
		t.Fatalf("%s: %v", cmd.Name(), err)
	}
	return result
}

// must executes a command that must succeed.
func must(t tester, m *memory.Memory, cmd memory.Command) memory.Result {
	t.Helper()
	result := do(t, m, cmd)
	if result.IsError() {
		t.Fatalf("%s: %s", cmd.Name(), result.Content[0].Text)
	}
	return result
}

// executor runs the vectors on the commands alone.
type executor struct{ m *memory.Memory }

func (e executor) Execute(ctx context.Context, input json.RawMessage) (memtest.Result, error) {
	cmd, _, result := memory.Parse(string(input))
	if cmd != nil {
		var err error
		if result, err = e.m.Do(ctx, namespace, cmd, memory.Call{}); err != nil {
			return memtest.Result{}, err
		}
	}
	got := memtest.Result{IsError: result.IsError()}
	for _, block := range result.Content {
		if block.MediaType != "" {
			got.Images = append(got.Images, memtest.Image{MediaType: block.MediaType, Data: block.Data})
		}
		got.Text += block.Text
	}
	return got, nil
}

func (e executor) Put(ctx context.Context, path string, data []byte) error {
	_, err := e.m.Do(ctx, namespace, memory.Put{Path: path, Data: data}, memory.Call{})
	return err
}

func TestVectors(t *testing.T) {
	memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
		defaults := memory.Settings{ViewMaxChars: config.ViewMaxChars, MaxFileBytes: config.MaxFileBytes}
		if config.CreateOnExisting != nil && *config.CreateOnExisting == "overwrite" {
			defaults.CreateOnExisting = new(memory.CreateOverwrite)
		}
		return executor{newMemory(t, defaults)}
	})
}
