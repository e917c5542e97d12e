// Command memoryctl is the remote command line of memoryd. For people it has the commands of the memory tool, files in
// and out, and the settings of namespaces; for programs it has `memoryctl tool`, which answers one tool call a line.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// So that writing to a closed pipe fails, and has its exit status, instead of ending the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs one command line, without the name of the program, and returns the exit status. It ends early with ctx.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, isTerminal: isTerminal}
	return c.run(ctx, args)
}
