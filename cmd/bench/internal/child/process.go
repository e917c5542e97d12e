// Package child runs the servers that are measured, each as a process of its own, and reads what the system and the
// servers themselves count about them.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a process may take to end before it is killed.
	stopTimeout = 30 * time.Second
	// pollInterval is how often Await asks. It bounds how exactly a start can be timed.
	pollInterval = time.Millisecond
	// logTail is how much of the log of a process goes into an error.
	logTail = 2 << 10
)

// Options says what to run.
type Options struct {
	// Name is what the process is called in errors; its log is the file of that name in Dir.
	Name string
	// Dir is the directory for the log.
	Dir string
	// Command is the program and its arguments.
	Command []string
	// Pipes connects Stdin and Stdout of the Process. Otherwise the output goes to the log.
	Pipes bool
}

// Process is a process that runs. It is made by Start.
type Process struct {
	// Stdin and Stdout are those of the process where Options.Pipes asked for them.
	Stdin  io.WriteCloser
	Stdout io.Reader

	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; to be read once done is closed

	stopping atomic.Bool // somebody has called Stop
}

// Start starts a process. The caller must Stop it.
func Start(opts Options) (*Process, error) {
	p := &Process{
		name: opts.Name,
		log:  filepath.Join(opts.Dir, opts.Name+".log"),
		cmd:  exec.Command(opts.Command[0], opts.Command[1:]...), //nolint:gosec // what the operator compares
		done: make(chan struct{}),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // The process has its own by then.
	p.cmd.Env = environment(os.Environ())
	p.cmd.Stderr = log
	if opts.Pipes {
		if p.Stdin, err = p.cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.name, err)
		}
		if p.Stdout, err = p.cmd.StdoutPipe(); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.name, err)
		}
	} else {
		p.cmd.Stdout = log
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// environment is env without what would change how the servers run.
func environment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(s string) bool {
		return slices.ContainsFunc([]string{"MEMORYD_", "OTEL_", "ETCD_", "PG", "NODE_OPTIONS"}, func(prefix string) bool {
			return strings.HasPrefix(s, prefix)
		})
	})
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await waits until ready returns nil. Where the process ends before, or ctx is done, the error has the end of its log.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended instead of serving: %w: %s", p.name, p.ended(), p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w: %w: %s", p.name, ctx.Err(), err, p.said())
		}
	}
}

func (p *Process) ended() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// said returns the end of the log.
func (p *Process) said() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(log[max(0, len(log)-logTail):]))
}

// Stop ends the process as a service manager does, and kills it where it does not end. Nil and a process that has been
// stopped are fine; one that ended by itself is an error.
func (p *Process) Stop() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		if p.err == nil || p.stopping.Load() {
			return nil
		}
		return fmt.Errorf("%s ended by itself: %w: %s", p.name, p.ended(), p.said())
	default:
	}
	p.stopping.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // Where there is no such signal, it is killed below.
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		return nil
	case <-timeout.C:
		_ = p.cmd.Process.Kill() // It may have ended by now.
		<-p.done
		return fmt.Errorf("%s did not end within %s and was killed", p.name, stopTimeout)
	}
}

// FreeAddress returns an address of the loopback interface that nothing listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return address, nil
}
