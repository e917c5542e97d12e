package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
)

// The exit status of the program. They are those of memoryctl where it has them.
const (
	exitOK          = 0
	exitStopped     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitOther       = 4
)

const exitStatusText = `Exit status of memory-agent:

  0  done: the model came to the end of its turn
  1  the model stopped before that: it refused, or ran out of tokens or turns.
     What it did until then is in the memory.
  2  usage: an unknown command or flag, a value that cannot be used
  3  memoryd cannot be reached at --addr
  4  anything else: the API failed, memoryd refused, or memory-agent was
     interrupted. The session was closed where memoryd could be reached.`

func exitStatusTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-status", Short: "What the exit status means", Long: exitStatusText}
}

// errInterrupted ends a session that was interrupted and could be closed.
var errInterrupted = errors.New("interrupted; the session was closed")

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitStatus says on standard error why a command failed and returns the exit status.
func (c *cli) exitStatus(ctx context.Context, cmd *cobra.Command, err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage) || !c.started: // what cobra finds wrong it finds before a command starts
		c.complain("%v\nRun '%s --help' for usage.", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, syscall.EPIPE): // whoever read the output has had enough
		return exitOther
	case errors.Is(err, errInterrupted):
		again := "the same command"
		if c.ran.transcript != "" { // which has one session
			again += " with another --transcript"
		}
		c.complain("%v. Run %s to carry on", errInterrupted, again) // and not by what it was noticed
		return exitOther
	case ctx.Err() != nil:
		c.complain("interrupted")
		return exitOther
	case errors.Is(err, agentkit.ErrStopped):
		c.complain("%v", err)
		return exitStopped
	case client.IsUnreachable(err):
		c.complain("memoryd cannot be reached at %s: %s (%v)", c.ran.addr, c.advice(err), err)
		return exitUnreachable
	}
	if advice := c.advice(err); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	c.complain("%v", err)
	return exitOther
}

// advice says what to check or do about the error of a call, "" where there is nothing to say.
func (c *cli) advice(err error) string {
	return c.ran.connection.Advice(err, "namespace "+c.ran.namespace)
}

// complain prints a line on standard error in the name of the program.
func (c *cli) complain(format string, args ...any) {
	fmt.Fprintf(c.stderr, "memory-agent: "+format+"\n", args...)
}
