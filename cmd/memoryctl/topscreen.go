package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// What is sent to the terminal.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // another screen than that of the shell, and no cursor
	screenLeave = "\x1b[?25h\x1b[?1049l" // what was there before
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n" // and nothing of what was drawn before in the rest of the line
	screenRest  = "\x1b[K\x1b[J"
)

// screen is a terminal on which one page is drawn over the one before.
type screen struct {
	out   io.Writer
	size  func() (width, height int)
	keys  <-chan byte // closed where no more can come; nil: there are none
	leave func()
}

// openScreen takes the terminal of standard output for a screen. Where standard input is a terminal too, its keys come
// at once and are not shown. The caller closes it, whatever happens.
func (c *cli) openScreen() (_ *screen, err error) {
	out, ok := c.stdout.(*os.File)
	if !ok {
		return nil, errors.New("standard output is no terminal")
	}
	restoreOutput, err := obeyEscapes(out)
	if err != nil {
		return nil, fmt.Errorf("set up terminal: %w", err)
	}
	s := &screen{out: out, leave: restoreOutput, size: func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}}
	if in, ok := c.stdin.(*os.File); ok && c.isTerminal(in) {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			restoreOutput()
			return nil, fmt.Errorf("set up terminal: %w", err)
		}
		done := make(chan struct{})
		s.keys = readKeys(in, done)
		s.leave = func() {
			close(done)
			_ = term.Restore(int(in.Fd()), state) // Nothing else can be done about it.
			restoreOutput()
		}
	}
	if _, err := io.WriteString(out, screenEnter); err != nil {
		s.leave()
		return nil, fmt.Errorf("write standard output: %w", err)
	}
	return s, nil
}

// readKeys reads until nothing comes any more, or somebody is done: then it ends with the next key, or the process.
func readKeys(in io.Reader, done <-chan struct{}) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		key := make([]byte, 1)
		for {
			if _, err := io.ReadFull(in, key); err != nil {
				return
			}
			select {
			case keys <- key[0]:
			case <-done:
				return
			}
		}
	}()
	return keys
}

// draw draws a page in one piece, so that it does not flicker.
func (s *screen) draw(lines []string) error {
	if _, err := io.WriteString(s.out, screenHome+strings.Join(lines, lineEnd)+screenRest); err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}

func (s *screen) close() {
	_, _ = io.WriteString(s.out, screenLeave) // There may be nobody any more who sees it.
	s.leave()
}
