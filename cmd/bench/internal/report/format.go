package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// absent stands for what was not measured.
const absent = "-"

// significant prints a number with three digits that say something, or all of those before the point.
func significant(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil || rounded == 0 { // It is no number, or nothing.
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(rounded))))
	return strconv.FormatFloat(rounded, 'f', decimals, 64)
}

// scaled prints a number in the largest of units, each of which is step times the one before, that it has one of.
func scaled(v, step float64, units ...string) string {
	i := 0
	for ; i < len(units)-1 && math.Abs(v) >= step; i++ {
		v /= step
	}
	return significant(v) + " " + units[i]
}

func bytesText(v float64) string { return scaled(v, 1<<10, "B", "KiB", "MiB", "GiB") }

func secondsText(v float64) string { return scaled(v*1e6, 1e3, "µs", "ms", "s") }

// spreadText prints a factor as how far it is from 1.
func spreadText(factor float64) string { return fmt.Sprintf("±%s%%", significant((factor-1)*100)) }

// text prints a value of a metric.
func text(m trial.Metric, v float64) string {
	switch m {
	case trial.P50, trial.P99, trial.CPU, trial.Start:
		return secondsText(v)
	case trial.AllocBytes, trial.WrittenBytes, trial.Growth, trial.AnonBytes, trial.ReadBytes:
		return bytesText(v)
	}
	return significant(v)
}

// in prints a number in its unit.
func (u Unit) in(v float64) string {
	switch u {
	case Bytes:
		return bytesText(v)
	case Seconds:
		return secondsText(v)
	case Times:
		return significant(v) + "×"
	}
	return significant(v)
}

// target prints the target of a check.
func (c *Check) target() string {
	if c.Bound == Same {
		return "the same"
	}
	return string(c.Bound) + " " + c.Unit.in(c.Limit)
}

// measured prints what was measured.
func (c *Check) measured() string {
	if c.Measured == nil {
		return absent
	}
	measured := c.Unit.in(*c.Measured)
	if c.same() {
		measured += ", same"
	}
	return measured
}

func (c *Check) control() string {
	if c.Spread == nil {
		return absent
	}
	return spreadText(*c.Spread)
}

func (c *Check) verdict() string {
	switch {
	case c.Measured == nil:
		return "not measured"
	case c.CannotTell:
		return "cannot tell"
	case c.Met:
		return "yes"
	}
	return "NO"
}
