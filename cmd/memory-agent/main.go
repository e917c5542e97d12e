// Command memory-agent is an example of an agent in Go whose memory is memoryd: a research assistant that answers a
// question from local documents, over as many sessions as it takes. `memory-agent demo` shows it without a network.
// Read agent.go first.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-7f2870e1/memoryd/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// So that writing to a closed pipe fails, and the session is closed, instead of ending the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs one command line, without the name of the program, and returns the exit status. It ends early with ctx.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &cli{stdout: stdout, stderr: stderr, retryBudget: client.DefaultRetryBudget}
	return c.run(ctx, args)
}
