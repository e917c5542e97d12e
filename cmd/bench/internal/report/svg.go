package report

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"text/template"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/stat"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

//go:embed report.svg.tmpl
var svgText string

var svgTemplate = template.Must(template.New("svg").Funcs(template.FuncMap{"xml": escaped}).Parse(svgText))

// Measures of the picture, in pixels.
const (
	svgWidth  = 960
	svgLeft   = 390 // of the axis
	svgRight  = 850
	svgValue  = 864 // where the numbers are
	svgTop    = 94  // of the first bar
	svgRow    = 24
	svgBottom = 16
)

// svgBar is a ratio as a bar from 1 to it, on a logarithmic axis.
type svgBar struct {
	Label, Value string
	Class        string // of the style
	Y            int
	X, Width     float64
	BandX, BandW float64 // what is the same
}

type svgTick struct {
	X     float64
	Label string
}

type svgPicture struct {
	Width, Height, Top, Bottom, Value int
	One                               float64
	Heading                           []string
	Bars                              []svgBar
	Ticks                             []svgTick
}

// WriteSVG draws the ratios of rates to those of other programs, with what the control makes of them.
func (r *Report) WriteSVG(file string) error {
	var b strings.Builder
	if err := svgTemplate.Execute(&b, r.picture()); err != nil {
		return fmt.Errorf("draw report: %w", err)
	}
	return writeFile(file, []byte(b.String()))
}

func (r *Report) picture() svgPicture {
	p := svgPicture{Width: svgWidth, Top: svgTop, Value: svgValue, Heading: r.heading()[:2]}
	low, high := 0.5, 2.0 // of the axis: at least that
	var all []comparison
	for _, c := range r.comparisons() {
		if ratio, ok := c.result.Ratio(c.first, c.reference, trial.Rate); ok && c.other {
			all = append(all, c)
			low, high = min(low, ratio), max(high, ratio)
		}
	}
	first, last := math.Floor(math.Log2(low)), math.Ceil(math.Log2(high))
	at := func(ratio float64) float64 {
		part := (math.Log2(ratio) - first) / (last - first)
		return svgLeft + min(max(part, 0), 1)*(svgRight-svgLeft)
	}
	p.One = at(1)
	for power := first; power <= last; power++ {
		label := fmt.Sprintf("%.0f", math.Exp2(power))
		if power < 0 {
			label = fmt.Sprintf("1/%.0f", math.Exp2(-power))
		}
		p.Ticks = append(p.Ticks, svgTick{at(math.Exp2(power)), label + "×"})
	}
	for i, c := range all {
		ratio, _ := c.result.Ratio(c.first, c.reference, trial.Rate)
		bar := svgBar{
			Label: fmt.Sprintf("%s, C=%d: %s over %s", c.result.Name, c.result.Callers, c.first, c.reference),
			Value: Times.in(ratio),
			Class: "better",
			Y:     svgTop + i*svgRow,
			X:     min(p.One, at(ratio)), Width: math.Abs(at(ratio) - p.One),
		}
		if ratio < 1 {
			bar.Class = "worse"
		}
		if spread, ok := c.result.Spread(trial.Rate); ok {
			bar.BandX = at(1 / spread)
			bar.BandW = at(spread) - bar.BandX
			if stat.Within(ratio, spread) {
				bar.Class = "same"
			}
		}
		p.Bars = append(p.Bars, bar)
	}
	p.Bottom = svgTop + len(all)*svgRow
	p.Height = p.Bottom + svgBottom
	return p
}

func escaped(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}
