package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/memory/memtest"
)

// toolProcess is a `memoryctl tool` that runs, as an agent in any language would start it.
type toolProcess struct {
	daemon    *daemon
	namespace string
	stdin     io.WriteCloser
	stdout    *bufio.Reader
	calls     int
}

// startTool starts `memoryctl tool` for a namespace; it must end well when the test ends.
func startTool(t *testing.T, d *daemon, namespace string) *toolProcess {
	t.Helper()
	cmd := exec.Command(binary("memoryctl"), "tool", "--addr", d.target, "--namespace", namespace)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("memoryctl tool: %v", err)
		}
	})
	return &toolProcess{daemon: d, namespace: namespace, stdin: stdin, stdout: bufio.NewReader(stdout)}
}

// Execute sends a tool_use block and reads the tool_result that answers it.
func (p *toolProcess) Execute(_ context.Context, input json.RawMessage) (memtest.Result, error) {
	p.calls++
	id := fmt.Sprintf("toolu_%d", p.calls)
	var line bytes.Buffer
	if err := json.Compact(&line, fmt.Appendf(nil, `{"type":"tool_use","id":%q,"name":"memory","input":%s}`, id, input)); err != nil {
		return memtest.Result{}, err
	}
	line.WriteByte('\n')
	if _, err := p.stdin.Write(line.Bytes()); err != nil {
		return memtest.Result{}, err
	}
	answer, err := p.stdout.ReadBytes('\n')
	if err != nil {
		return memtest.Result{}, err
	}
	return memtest.ParseToolResult(answer, id)
}

// Put stores bytes with `memoryctl put`.
func (p *toolProcess) Put(ctx context.Context, path string, data []byte) error {
	out, err := p.daemon.tryCtl(ctx, bytes.NewReader(data), "put", path, "--namespace", p.namespace)
	if err == nil && out.status != 0 {
		err = errors.New(out.stderr)
	}
	return err
}

// TestVectors runs the vectors through the built binaries.
func TestVectors(t *testing.T) {
	d := start(t)
	memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
		namespace := "vectors/" + t.Name()[len("TestVectors/"):]
		set := []string{"namespace", "set", namespace}
		if v := config.CreateOnExisting; v != nil {
			set = append(set, "--create-on-existing", *v)
		}
		if v := config.ViewMaxChars; v != nil {
			set = append(set, "--view-max-chars", fmt.Sprint(*v))
		}
		if v := config.MaxFileBytes; v != nil {
			set = append(set, "--max-file-bytes", fmt.Sprint(*v))
		}
		if len(set) > 3 {
			if out := d.ctl(t, nil, set...); out.status != 0 {
				t.Fatalf("memoryctl %q: %s", set, out.stderr)
			}
		}
		return startTool(t, d, namespace)
	})
}
