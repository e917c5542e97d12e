package memory

import (
	"context"
	"slices"
)

// scanner finds the secrets that a change has brought, in its text and in what masking makes of that.
//
// A secret outside of what is new was perhaps there before, and only what stands around it has changed. So the text
// before the change is searched too, but not until there is such a one.
type scanner struct {
	screener  Screener
	namespace string
	change    change   // as it was made
	masked    []places // what was masked since
	searched  bool     // the text before the change
	known     []secret // that it had and the change left as they are
}

func newScanner(screener Screener, namespace string, c change) *scanner {
	return &scanner{screener: screener, namespace: namespace, change: c}
}

// find searches a text in a turn of its own.
func (s *scanner) find(ctx context.Context, text string) ([]SecretFinding, error) {
	end, err := s.screener.Turn(ctx, s.namespace, len(text))
	if err != nil {
		return nil, err
	}
	defer end()
	return s.screener.Scan(ctx, text)
}

// secret is where a rule finds one in a text.
type secret struct {
	rule string
	place
}

// scan returns what is found in the text of a change and is new.
func (s *scanner) scan(ctx context.Context, c change) ([]SecretFinding, error) {
	found, err := s.find(ctx, c.text)
	if err != nil {
		return nil, err
	}
	var news []SecretFinding
	for _, f := range found {
		if !c.touches(f) {
			continue
		}
		if !f.Unsearched && !c.overlaps(f) {
			known, err := s.knows(ctx, f)
			if err != nil {
				return nil, err
			}
			if known {
				continue
			}
		}
		news = append(news, f)
	}
	return news, nil
}

// knows tells whether a finding was there before the change.
func (s *scanner) knows(ctx context.Context, f SecretFinding) (bool, error) {
	if !s.searched {
		found, err := s.find(ctx, s.change.original())
		if err != nil {
			return false, err
		}
		s.known, s.searched = s.change.kept(found), true
	}
	return slices.ContainsFunc(s.known, func(k secret) bool {
		for _, masked := range s.masked {
			k.start, k.end = masked.moved(k.start, false), masked.moved(k.end, true)
		}
		return k == f.secret()
	}), nil
}

func (f SecretFinding) secret() secret { return secret{f.Rule, place{f.SecretStart, f.SecretEnd}} }

// original is the text before the change.
func (c change) original() string { return c.text[:c.start] + c.removed + c.text[c.end:] }

// kept are the secrets of the original text of which nothing was taken away and into which nothing was put, by where
// they are now.
func (c change) kept(found []SecretFinding) []secret {
	var kept []secret
	for _, f := range found {
		k := f.secret()
		switch removedEnd := c.start + len(c.removed); {
		case k.end <= c.start:
		case k.start >= removedEnd:
			k.start += c.end - removedEnd
			k.end += c.end - removedEnd
		default:
			continue
		}
		kept = append(kept, k)
	}
	return kept
}
