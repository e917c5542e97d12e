// Command memoryd is the memory service: it serves the API of memoryd.v1 from a directory of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2 // a setting that cannot be used, too: to try again would not help
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // so that a second signal kills
	signal.Ignore(syscall.SIGPIPE) // else the end of whoever reads the log would kill
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Environ, os.Stdout, os.Stderr))
}

// run is the command without the process around it. It returns the exit status.
func run(
	ctx context.Context, args []string, lookupEnv lookupEnv, environ environ, stdout, stderr io.Writer,
) int {
	registerKMS()
	root := newRoot(lookupEnv, environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	lines := newLineQueue(stderr, func(int64) {}) // so that the process ends where nobody reads this
	defer lines.close(flushTimeout)
	_, _ = fmt.Fprintf(lines, "memoryd: %s\n", oneLine(err))
	var usage *usageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(lines, "Run \"%s --help\" for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	var setting *settingError
	if errors.As(err, &setting) {
		return exitUsage
	}
	return exitError
}

// oneLine is the message of an error in one line.
func oneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "; ")
}

// usageError is an error in how the command was called.
type usageError struct{ error }

// Unwrap returns the error itself.
func (e *usageError) Unwrap() error { return e.error }

// settingError is an error in a setting, wherever it comes from.
type settingError struct{ error }

// Unwrap returns the error itself.
func (e *settingError) Unwrap() error { return e.error }

func settingErrorf(format string, args ...any) error {
	return &settingError{fmt.Errorf(format, args...)}
}
