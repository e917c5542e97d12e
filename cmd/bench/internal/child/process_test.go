package child

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		if err := write(dir); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// writerEnv makes the test binary the process that TestProcess_Trace counts, which writes to a directory.
const writerEnv = "BENCH_TEST_WRITER"

// write writes to a file when it is told to, says so, and ends when its input does.
func write(dir string) error {
	f, err := os.Create(filepath.Join(dir, "written"))
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	_, err1 := f.WriteAt(make([]byte, 100), 0)
	_, err2 := f.WriteAt(make([]byte, 200), 100)
	err3 := f.Sync()
	_, err4 := os.Stdout.WriteString("done\n")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	_, _ = in.ReadString('\n')
	return nil
}

// shell starts a script.
func shell(t *testing.T, script string, pipes bool) *Process {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("*** NOT RUN: there is no shell ***")
	}
	p, err := Start(Options{Name: "script", Dir: t.TempDir(), Command: []string{sh, "-c", script}, Pipes: pipes})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcess(t *testing.T) {
	p := shell(t, `while read line; do echo "$line$line"; done; exec sleep 1000`, true)
	if _, err := p.Stdin.Write([]byte("ab\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(p.Stdout).ReadString('\n'); got != "abab\n" {
		t.Errorf("got %q, %v, want abab", got, err)
	}
	if usage, err := p.Usage(); err != nil || (runtime.GOOS == "linux") != (usage != nil) {
		t.Errorf("got usage %v, %v", usage, err)
	}
	for range 2 { // It may be stopped again.
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := (*Process)(nil).Stop(); err != nil {
		t.Errorf("no process: got %v", err)
	}
}

// A server that does not start is an error at once, with what it says.
func TestProcess_Await(t *testing.T) {
	never := errors.New("not yet")
	notYet := func(context.Context) error { return never }
	p := shell(t, "echo no such luck >&2; exit 3", false)
	err := p.Await(t.Context(), notYet)
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no such luck") {
		t.Errorf("got %v, want the status and what it said", err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("stop: got %v, want that it ended by itself", err)
	}

	p = shell(t, "exec sleep 1000", false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.Await(ctx, notYet); !errors.Is(err, never) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want why it was not ready, and that time was over", err)
	}
	if err := p.Await(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("got %v of one that is ready", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// What a process writes to a file is counted, and nothing else.
func TestProcess_Trace(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("*** NOT RUN: there is no strace ***")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv(writerEnv, dir)
	p, err := Start(Options{Name: "writer", Dir: dir, Command: []string{self}, Pipes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(p.Stdin.Close(), p.Stop()); err != nil {
			t.Error(err)
		}
	}()
	tracer, err := p.Trace(t.Context(), dir)
	if err != nil {
		t.Skipf("*** NOT RUN: strace cannot be used here: %v ***", err)
	}
	if _, err := p.Stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	got, err := tracer.Stop()
	if want := (Calls{Writes: 2, Bytes: 300, Syncs: 1}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"PATH=/bin", "MEMORYD_DATA=/data", "OTEL_SDK_DISABLED=true", "PGHOST=db", "HOME=/root"})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/root"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
