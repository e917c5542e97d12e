// Package memtest is the conformance suite of the memory tool: vectors that any executor of the six commands must
// answer byte for byte, whether it is the commands alone, a service, or a client's tool handler.
package memtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vectors holds the scenarios; section 7 of the contract of the memory tool describes their format.
//
//go:embed memory_tool.json
var vectors []byte

// Executor executes commands in one empty namespace.
type Executor interface {
	// Execute runs the input of a tool_use block. An error is a failure of the executor, never of a command.
	Execute(ctx context.Context, input json.RawMessage) (Result, error)
	// Put stores the bytes of a file, whatever they are.
	Put(ctx context.Context, path string, data []byte) error
}

// Result is what the model reads.
type Result struct {
	IsError bool
	Text    string // of all text blocks
	Images  []Image
}

// Image is an image block.
type Image struct {
	MediaType string
	Data      []byte
}

// Config are the settings that a scenario overrides; nil fields keep their default.
type Config struct {
	CreateOnExisting *string `json:"create_on_existing"` // "error" or "overwrite"
	ViewMaxChars     *int64  `json:"view_max_chars"`
	MaxFileBytes     *int64  `json:"max_file_bytes"`
}

// Scenario is a sequence of steps on an empty namespace.
type Scenario struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Config Config `json:"config"`
	Steps  []Step `json:"steps"`
}

// Step is a fixture or a command with what it must answer.
type Step struct {
	Fixture *struct {
		Path   string  `json:"path"`
		Base64 []byte  `json:"base64"`
		Text   *string `json:"text"`
	} `json:"fixture"`
	Input  json.RawMessage `json:"input"`
	Expect struct {
		IsError bool   `json:"is_error"`
		Text    string `json:"text"`
		Content []struct {
			MediaType string `json:"media_type"`
			Bytes     int    `json:"bytes"`
			SHA256    string `json:"sha256"`
		} `json:"content"`
	} `json:"expect"`
	Rule string `json:"rule"`
}

// Scenarios returns the vectors.
func Scenarios(t testing.TB) []Scenario {
	t.Helper()
	var scenarios []Scenario
	if err := json.Unmarshal(vectors, &scenarios); err != nil {
		t.Fatalf("read vectors: %v", err)
	}
	if len(scenarios) == 0 {
		t.Fatal("there are no vectors")
	}
	return scenarios
}

// Run runs every scenario on an executor of its own.
func Run(t *testing.T, newExecutor func(t *testing.T, config Config) Executor) {
	for _, scenario := range Scenarios(t) {
		t.Run(scenario.Name, func(t *testing.T) {
			executor := newExecutor(t, scenario.Config)
			for i, step := range scenario.Steps {
				if err := step.run(t.Context(), executor); err != nil {
					t.Fatalf("step %d (%s): %v\n%s", i+1, step.Rule, err, scenario.About)
				}
			}
		})
	}
}

func (s Step) run(ctx context.Context, executor Executor) error {
	if f := s.Fixture; f != nil {
		data := f.Base64
		if f.Text != nil {
			data = []byte(*f.Text)
		}
		return executor.Put(ctx, f.Path, data)
	}
	input, err := expand(s.Input)
	if err != nil {
		return fmt.Errorf("expand input: %w", err)
	}
	got, err := executor.Execute(ctx, input)
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	want := fmt.Sprintf("is_error: %t\n%s", s.Expect.IsError, s.Expect.Text)
	for _, image := range s.Expect.Content {
		want += fmt.Sprintf("\nimage: %s, %d bytes, sha256 %s", image.MediaType, image.Bytes, image.SHA256)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		return fmt.Errorf("input %.300s\n(-want +got)\n%s", input, diff)
	}
	return nil
}

// String writes a result in a form that is easy to compare.
func (r Result) String() string {
	text := fmt.Sprintf("is_error: %t\n%s", r.IsError, r.Text)
	for _, image := range r.Images {
		sum := sha256.Sum256(image.Data)
		text += fmt.Sprintf("\nimage: %s, %d bytes, sha256 %s", image.MediaType, len(image.Data), hex.EncodeToString(sum[:]))
	}
	return text
}

// expand replaces every {"$repeat": ...} in an input by the text that it stands for. An input without one is left as
// it is, byte for byte.
func expand(input json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(input, []byte(`"$repeat"`)) {
		return input, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber() // keeps 1.0 apart from 1
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(expandValue(value))
}

func expandValue(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = expandValue(v[i])
		}
	case map[string]any:
		if text, ok := v["$repeat"].(string); ok {
			return repeat(text, v)
		}
		for key := range v {
			v[key] = expandValue(v[key])
		}
	}
	return value
}

func repeat(text string, options map[string]any) string {
	count, _ := strconv.Atoi(fmt.Sprint(options["count"]))
	join, _ := options["join"].(string)
	suffix, _ := options["suffix"].(string)
	number, _ := options["number"].(bool)
	parts := make([]string, count)
	for i := range parts {
		parts[i] = text
		if number {
			parts[i] = strings.ReplaceAll(text, "#", strconv.Itoa(i+1))
		}
	}
	return strings.Join(parts, join) + suffix
}
