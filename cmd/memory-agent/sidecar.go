package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// stopTimeout is how long memoryd may take to end before it is killed.
const stopTimeout = 5 * time.Second

// sidecar is a memoryd that runs beside its only user.
type sidecar struct {
	cmd  *exec.Cmd
	log  bytes.Buffer  // complete once done is closed
	done chan struct{} // closed when the process has ended
}

// findMemoryd returns the path of a memoryd: the one that is named, or the one next to this program, or that in PATH.
func findMemoryd(named, self string) (string, error) {
	name := "memoryd"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, path := range []string{named, filepath.Join(filepath.Dir(self), name), name} {
		if path == "" {
			continue
		}
		found, err := exec.LookPath(path)
		switch {
		case err == nil:
			return found, nil
		case path == named:
			return "", usageErrorf("--memoryd: %v", err)
		}
	}
	return "", errors.New("there is no memoryd next to memory-agent or in PATH: " +
		"build it with `make build`, or say where it is with --memoryd")
}

// startSidecar starts a memoryd that serves on target and keeps its data in dir.
func startSidecar(memoryd, target, dir string) (*sidecar, error) {
	s := &sidecar{
		cmd:  exec.Command(memoryd, "--listen", target, "--data", dir, "--http", ""), //nolint:gosec // the user's choice
		done: make(chan struct{}),
	}
	s.cmd.Env = plainEnvironment()
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start memoryd: %w", err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // the log says why
	}()
	return s, nil
}

// await waits until memoryd serves. It tells at once when it does not start.
func (s *sidecar) await(ctx context.Context, m *client.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := m.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: demoNamespace})
	select {
	case <-s.done:
		said := strings.TrimSpace(s.log.String())
		if said == "" {
			return fmt.Errorf("%s ended without a word instead of serving: is it a memoryd?", s.cmd.Path)
		}
		return fmt.Errorf("memoryd ended: %s", said)
	default:
		return err
	}
}

// stop lets memoryd end, as a service manager does.
func (s *sidecar) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // where there is no such signal, it is killed below
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		s.kill()
	}
}

// kill ends memoryd at once.
func (s *sidecar) kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.done
}

// plainEnvironment is the environment without settings of memoryd and memoryctl, which would change the demo, and
// without the key of the API, which it does not need.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "MEMORYD_") || strings.HasPrefix(s, "MEMORYCTL_") || strings.HasPrefix(s, "ANTHROPIC_")
	})
}
