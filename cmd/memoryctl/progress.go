package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressInterval is the shortest time between two drawings of a progress bar.
const progressInterval = 100 * time.Millisecond

// progress shows on standard error how far a command is, where that is a terminal. It is wiped away at the end.
type progress struct{ bar *progressbar.ProgressBar } // nil shows nothing

// startProgress begins to show the progress of total bytes; 0 or less is an unknown number. The caller finishes it
// before anything else is printed.
func (c *cli) startProgress(what string, total int64) *progress {
	if !c.isTerminal(c.stderr) {
		return &progress{}
	}
	if total <= 0 {
		total = -1 // a spinner
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(c.stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionThrottle(progressInterval),
		progressbar.OptionSetSpinnerChangeInterval(0), // turns with the bytes; else a goroutine would turn it
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// add counts bytes. What cannot be drawn is not worth an error.
func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
