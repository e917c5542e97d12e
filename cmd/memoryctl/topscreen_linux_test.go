package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// openTerminal opens a terminal of 100 by 30 characters: what a person sees and types at is one end, what a program has
// as its standard streams the other.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT RUN: no terminal can be opened here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// TestTop_Terminal runs the program on a real terminal, which it leaves as it was however it ends.
func TestTop_Terminal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.New(t, func(cfg *server.Config) { cfg.Listeners = append(cfg.Listeners, listener) })
	for _, tt := range []struct {
		name string
		end  func(person *os.File, program *os.Process) error
	}{
		{"q", func(person *os.File, _ *os.Process) error { _, err := person.WriteString("q"); return err }},
		{"Ctrl-C", func(person *os.File, _ *os.Process) error { _, err := person.WriteString("\x03"); return err }},
		{"SIGTERM", func(_ *os.File, program *os.Process) error { return program.Signal(syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			person, program := openTerminal(t)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := exec.Command(os.Args[0], "top", "--addr", listener.Addr().String(), "--interval", "100ms")
			cmd.Env = append(os.Environ(), runMain+"=1")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, &stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			var after *unix.Termios
			go func() {
				err := cmd.Wait()
				var lost error
				after, lost = unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
				ended <- errors.Join(err, lost, program.Close()) // With it closed, reading ends.
			}()
			var seen bytes.Buffer
			read := func(until string) {
				t.Helper()
				buf := make([]byte, 4096)
				for !strings.Contains(seen.String(), until) {
					n, err := person.Read(buf)
					seen.Write(buf[:n])
					if err != nil {
						t.Fatalf("got %q and %v, want %q", seen.String(), err, until)
					}
				}
			}
			read("AdminService/GetActivity") // It sees itself from the second look on.
			if err := tt.end(person, cmd.Process); err != nil {
				t.Fatal(err)
			}
			read(screenLeave)
			if err := <-ended; err != nil || stderr.Len() > 0 {
				t.Errorf("got %v and %q on standard error, want status 0", err, &stderr)
			}
			if !strings.HasPrefix(seen.String(), screenEnter+screenHome+"memoryd ") {
				t.Errorf("got %q, want another screen first", seen.String()[:min(seen.Len(), 100)])
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the terminal is not as it was (-before +after):\n%s", diff)
			}
		})
	}
}

// A stream that is no terminal, though somebody says so, is refused.
func TestOpenScreen_NoTerminal(t *testing.T) {
	c := &cli{stdout: &bytes.Buffer{}, isTerminal: func(any) bool { return true }}
	if s, err := c.openScreen(); err == nil || s != nil {
		t.Errorf("got %v, %v; want an error", s, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c.stdout, c.stdin = null, null
	if s, err := c.openScreen(); !errors.Is(err, syscall.ENOTTY) || s != nil {
		t.Errorf("got %v, %v; want %v", s, err, syscall.ENOTTY)
	}
}
