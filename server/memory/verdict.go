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
	// ruleUnsearched is the rule of a text that there was no time to search at all.
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

// judge searches the text of a window.
func judge(ctx context.Context, screener Screener, masked change) (*verdict, error) {
	v := &verdict{}
	for round := 0; ; round++ {
		found, err := screener.Scan(ctx, masked.text)
		if err != nil {
			return nil, err
		}
		var secrets []SecretFinding
		searched := true
		for _, f := range found {
			switch {
			case !masked.touches(f):
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
			v.masked = &masked
			return v, nil
		case !searched || round == maxMaskings:
			return v, nil
		}
		v.replaced += masked.mask(secrets)
	}
}

// mask replaces secrets, which are in the order of their places, and returns how many replacements there are.
func (c *change) mask(secrets []SecretFinding) (replaced int) {
	text := c.text
	var b strings.Builder
	done := 0 // how much of text is in b, or replaced
	// The places of the change are moved along. One within a secret goes to where the replacement begins, or the end of
	// what is new to where it ends.
	start, end, at := c.start, c.end, c.at
	move := func(place *int, original, from, to int, afterwards bool) {
		switch {
		case original >= to:
			*place += len(redacted) - (to - from)
		case original > from && afterwards:
			*place += len(redacted) - (original - from)
		case original > from:
			*place -= original - from
		}
	}
	for i := 0; i < len(secrets); replaced++ {
		from, to := secrets[i].SecretStart, secrets[i].SecretEnd
		for i++; i < len(secrets) && secrets[i].SecretStart < to; i++ { // Rules may find the same secret.
			to = max(to, secrets[i].SecretEnd)
		}
		b.WriteString(text[done:from])
		b.WriteString(redacted)
		done = to
		move(&c.start, start, from, to, false)
		move(&c.end, end, from, to, true)
		move(&c.at, at, from, to, false)
	}
	b.WriteString(text[done:])
	c.text = b.String()
	return replaced
}
