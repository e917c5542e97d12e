package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// obeyEscapes has a console obey escape sequences until restore is called.
func obeyEscapes(console *os.File) (restore func(), err error) {
	handle := windows.Handle(console.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(handle, &mode); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(handle, mode) }, nil // The process ends soon.
}
