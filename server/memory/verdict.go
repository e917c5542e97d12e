package memory

import (
	"context"
	"strings"
)

const (
	// redacted stands where a secret was.
	redacted = "[REDACTED]"
	// maxMaskings is how often a text is masked. A rule may find more once something else is gone; none is known that
	// does so twice.
	maxMaskings = 4
	// ruleUnsearched is the rule of a text that could not be searched at all.
	ruleUnsearched = "unsearched"
)

// verdict is what was found in a window that has to do with what is new in it. The lines are those of the window.
type verdict struct {
	secrets  []SecretFinding
	doubtful []SecretFinding // that are only reported
	// masked is the text of the window without the secrets, nil where they cannot be masked; replaced is how many there
	// were.
	masked   *change
	replaced int
}

// unsearched is the verdict on a text that could not be searched.
func unsearched() *verdict {
	return &verdict{doubtful: []SecretFinding{{Rule: ruleUnsearched, Line: 1, Unsearched: true}}}
}

// judge searches the text of a window, which is the change of the scanner.
func judge(ctx context.Context, scanner *scanner) (*verdict, error) {
	v := &verdict{}
	c := scanner.change
	for round := 0; ; round++ {
		found, err := scanner.scan(ctx, c)
		if err != nil {
			return nil, err
		}
		var secrets []SecretFinding
		searched := true
		for _, f := range found {
			switch {
			case !f.ReportOnly:
				secrets = append(secrets, f)
				searched = searched && !f.Unsearched
			case round == 0:
				v.doubtful = append(v.doubtful, f)
			}
		}
		if round == 0 {
			v.secrets = secrets
		}
		switch {
		case len(secrets) == 0:
			v.masked = &c
			return v, nil
		case !searched || round == maxMaskings:
			return v, nil
		}
		masked := secretPlaces(secrets)
		c = masked.mask(c)
		scanner.masked = append(scanner.masked, masked)
		v.replaced += len(masked)
	}
}

// place is a part of a text.
type place struct{ start, end int }

// places are parts of a text that are replaced, in their order.
type places []place

// secretPlaces are where secrets are, which are in the order of their places. Rules may find the same one.
func secretPlaces(secrets []SecretFinding) places {
	var all places
	for _, f := range secrets {
		if last := len(all) - 1; last >= 0 && f.SecretStart < all[last].end {
			all[last].end = max(all[last].end, f.SecretEnd)
			continue
		}
		all = append(all, place{f.SecretStart, f.SecretEnd})
	}
	return all
}

// mask replaces parts of the text of a change, and moves what is told of it along.
func (all places) mask(c change) change {
	var b strings.Builder
	done := 0
	for _, p := range all {
		b.WriteString(c.text[done:p.start])
		b.WriteString(redacted)
		done = p.end
	}
	b.WriteString(c.text[done:])
	c.text = b.String()
	c.start, c.end, c.at = all.moved(c.start, false), all.moved(c.end, true), all.moved(c.at, false)
	return c
}

// moved is where a byte goes by the replacements. One that is replaced goes to where the replacement begins, or ends.
func (all places) moved(at int, toEnd bool) int {
	moved := at
	for _, p := range all {
		switch {
		case at >= p.end:
			moved += len(redacted) - (p.end - p.start)
		case at > p.start && toEnd:
			moved += len(redacted) - (at - p.start)
		case at > p.start:
			moved -= at - p.start
		}
	}
	return moved
}
