package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
)

// The exit status of the program.
const (
	exitOK          = 0
	exitErrorResult = 1 // the memory says no
	exitUsage       = 2
	exitUnreachable = 3
	exitOther       = 4 // another status, and what went wrong on this side
)

const exitStatusText = `Exit status of memoryctl:

  0  done
  1  the memory says no: the file does not exist, the text occurs twice, ...
     The reason is on standard error (with -o json, in the object on standard
     output). Nothing was changed; import has put in the rest, and says what it
     refused. export: the memory changed meanwhile. screen: something was found.
  2  usage: an unknown command or flag, a missing argument. Nothing was changed.
  3  memoryd cannot be reached at --addr, by TLS where that is asked for, or did
     not answer within --timeout
  4  anything else: memoryd does not know or does not let in whoever calls, or
     could not serve the call; standard input could not be read, standard output
     was closed, or memoryctl was interrupted

"memoryctl tool" reports what goes wrong with a call in the result of the call,
and says on standard error why memoryd did not answer. Its status is 0 when
standard input ends, whatever the results were.

For 3 and 4 there is one line on standard error, unless it was standard output
that was closed. The line ends with the gRPC code in brackets, the reason where
memoryd gave another, and the id of the call, by which the log of memoryd and
its audit trail have it as x_request_id:

  memoryctl: the store is read-only (FAILED_PRECONDITION, STORE_READ_ONLY,
  request id 9b6c1f0d2a7e4c58b1d3f5a7c9e1b3d5)

A change that was under way may or may not have been made; the line says so
where it is the case. View the file before you try again.`

func exitStatusTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-status", Short: "What the exit status means", Long: exitStatusText}
}

// errErrorResult ends a command whose error result was printed.
var errErrorResult = errors.New("error result")

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
	case errors.Is(err, errErrorResult):
		return exitErrorResult
	case errors.As(err, &usage) || !c.started: // what cobra finds wrong it finds before a command starts
		c.complain("%v\nRun '%s --help' for usage.", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, syscall.EPIPE): // whoever read the output has had enough
		return exitOther
	}
	_, isStatus := status.FromError(err)
	switch {
	case ctx.Err() != nil:
		c.complain("interrupted%s", doubt(err))
		return exitOther
	case !isStatus:
		c.complain("%v", err)
		return exitOther
	}
	c.complain("%s%s", c.explain(err, c.began), doubt(err))
	if client.IsUnreachable(err) {
		return exitUnreachable
	}
	return exitOther
}

// explain says why a call failed that began at some time; zero is where that is not known.
func (c *cli) explain(err error, began time.Time) string {
	st := status.Convert(err)
	switch {
	case client.IsUnreachable(err) && st.Code() == codes.DeadlineExceeded:
		// The client gives up sooner where nothing is at stake.
		waited := c.timeout
		if !began.IsZero() {
			waited = min(waited, time.Since(began).Round(100*time.Millisecond))
		}
		return fmt.Sprintf("memoryd at %s did not answer within %s: try a longer --timeout or another --addr",
			c.addr, waited)
	case client.IsUnreachable(err):
		return fmt.Sprintf("memoryd cannot be reached at %s: %s (%s)",
			c.addr, c.connection.Advice(err, c.about), st.Message())
	case client.Reason(err) == "":
		return fmt.Sprintf("%s (%s)", st.Message(), codeName(st.Code()))
	}
	text, code := st.Message(), codeName(st.Code())
	if st.Code() == codes.Unauthenticated { // the service says how to send a credential by gRPC, which memoryctl does
		text = "memoryd does not know who calls"
	}
	if advice := c.connection.Advice(err, c.about); advice != "" {
		text += ": " + advice
	}
	if reason := client.Reason(err); reason != code {
		code += ", " + reason
	}
	if id := client.RequestID(err); id != "" {
		code += ", request id " + id
	}
	return text + " (" + code + ")"
}

// doubt is the remark on a change of which nobody knows whether it was made.
func doubt(err error) string {
	if client.MayHaveBeenMade(err) {
		return "; the change may or may not have been made"
	}
	return ""
}

// codeName is the name of a code as the documents of gRPC have it, e.g. NOT_FOUND.
func codeName(c codes.Code) string { return code.Code(c).String() }
