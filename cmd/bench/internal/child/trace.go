package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Calls counts the system calls of a process that write to files. Go writes to sockets, and to logs, with write(2),
// and databases write to their files with pwrite64(2): so the one can be told from the other.
type Calls struct {
	// Writes is how often it wrote, and Bytes how much.
	Writes, Bytes int64
	// Syncs is how often it waited until that was on the disk. A wait right after a file was made larger does not count:
	// that is once for many writes.
	Syncs int64
}

// Tracer counts the system calls of a process until it is stopped.
type Tracer struct {
	cmd    *exec.Cmd
	output string
}

// Trace begins to count the system calls of a process with strace, which makes it slower: what is counted meanwhile is
// good, what is timed is not. An error that is exec.ErrNotFound says that there is no strace.
func (p *Process) Trace(ctx context.Context, dir string) (*Tracer, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", p.name, err)
	}
	t := &Tracer{output: filepath.Join(dir, p.name+".strace")}
	t.cmd = exec.Command(strace, //nolint:gosec // It was found in PATH.
		"-e", "trace=pwrite64,pwritev,pwritev2,fdatasync,fsync,msync,ftruncate,fallocate", "-e", "signal=none",
		"-f", "-s", "0", "-o", t.output, "-p", strconv.Itoa(p.PID()))
	said, err := t.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", p.name, err)
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("trace %s: %w", p.name, err)
	}
	stopped := context.AfterFunc(ctx, func() { _ = t.cmd.Process.Kill() })
	defer stopped()
	// It says so once it is attached to all threads, and why it is not otherwise.
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	if !strings.Contains(line, "attached") {
		_ = t.cmd.Process.Kill()
		_ = t.cmd.Wait()
		return nil, fmt.Errorf("trace %s: %w: %s", p.name, errors.Join(err, ctx.Err()), strings.TrimSpace(line))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until it ends
	return t, nil
}

// Stop ends the count and returns it. The process goes on.
func (t *Tracer) Stop() (Calls, error) {
	if err := t.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return Calls{}, fmt.Errorf("stop strace: %w", err)
	}
	_ = t.cmd.Wait() // It ends by the signal, which is an error to Wait.
	f, err := os.Open(t.output)
	if err != nil {
		return Calls{}, fmt.Errorf("read trace: %w", err)
	}
	defer func() { _ = f.Close() }()
	calls, err := parseTrace(f)
	if err != nil {
		return Calls{}, fmt.Errorf("read trace: %w", err)
	}
	return calls, nil
}

// traced is a line of strace about a call that returned: of one piece, or the second half where it was interrupted by
// that of another thread.
var traced = regexp.MustCompile(`^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>).*\) += (-?\d+)`)

func parseTrace(r io.Reader) (Calls, error) {
	var c Calls
	grew := map[string]bool{} // by the thread that made a file larger, as its last call
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		match := traced.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		thread, call := match[1], match[2]
		returned, err := strconv.ParseInt(match[3], 10, 64)
		if err != nil {
			return Calls{}, fmt.Errorf("parse %q: %w", lines.Text(), err)
		}
		if returned < 0 { // It failed.
			continue
		}
		switch {
		case call == "ftruncate" || call == "fallocate":
			grew[thread] = true
			continue
		case strings.HasPrefix(call, "pwrite"):
			c.Writes++
			c.Bytes += returned
		case !grew[thread]:
			c.Syncs++
		}
		delete(grew, thread)
	}
	return c, lines.Err()
}
