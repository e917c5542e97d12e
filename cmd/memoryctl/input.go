package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// maxTextBytes is the most text that a request can carry: the limit of a message.
const maxTextBytes = 16 << 20

// input returns standard input with reads that end with ctx: a read from a terminal or a pipe does not end by itself.
// The caller closes it.
func (c *cli) input(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		_, err := io.Copy(w, c.stdin)
		w.CloseWithError(err)
	}()
	return r
}

// readText returns the text that a command puts into a file: the one argument there may be, the contents of a local
// file, or standard input for "-", and for nothing at all where somebody is sending something.
func (c *cli) readText(ctx context.Context, args []string, file string) (string, error) {
	switch {
	case len(args) > 0 && file != "":
		return "", usageErrorf("TEXT and --file exclude each other")
	case len(args) > 0 && args[0] != "-":
		return args[0], nil
	case len(args) == 0 && file == "" && c.isTerminal(c.stdin):
		return "", usageErrorf("no text: give TEXT, or - to type it and end with Ctrl-D")
	case file != "" && file != "-":
		f, err := os.Open(file)
		if err != nil {
			return "", usageErrorf("--file: %v", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		return readAllText(f, file)
	}
	in := c.input(ctx)
	defer func() { _ = in.Close() }() // never fails
	return readAllText(in, "standard input")
}

func readAllText(r io.Reader, name string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTextBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxTextBytes:
		return "", usageErrorf("%s: the text has more than %d bytes", name, maxTextBytes)
	case !utf8.Valid(text):
		return "", usageErrorf("%s: the text is not valid UTF-8; \"memoryctl put\" stores any bytes", name)
	}
	return string(text), nil
}
