package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// pattern matches names of namespaces.
type pattern struct {
	text     string
	segments []segment // before "/**"; none for "**"
	below    bool      // ends with "**"
}

// segment matches one segment of a name: the literals between the "*" of its text. One without "*" has one literal.
type segment []string

// parsePattern reads a pattern:
//
//	acme/support       this namespace
//	acme/*             acme/x, and neither acme nor acme/x/y
//	acme/user-*        acme/user-42 and acme/user-
//	acme/support/**    all below acme/support at any depth, and not acme/support itself
//	**                 all
func parsePattern(text string) (pattern, error) {
	if text == "**" {
		return pattern{text: text, below: true}, nil
	}
	head, below := strings.CutSuffix(text, "/**")
	if strings.Contains(head, "**") {
		return pattern{}, errors.New(`"**" stands only at the end, as in acme/**`)
	}
	// A "*" of a name that is allowed can stand for a letter.
	if err := memory.ValidateNamespace(strings.ReplaceAll(head, "*", "x")); err != nil {
		return pattern{}, fmt.Errorf("it matches no namespace: %w", err)
	}
	p := pattern{text: text, below: below}
	for part := range strings.SplitSeq(head, "/") {
		p.segments = append(p.segments, strings.Split(part, "*"))
	}
	return p, nil
}

// all tells whether the pattern matches every name.
func (p pattern) all() bool { return p.below && len(p.segments) == 0 }

// matches takes time in proportion to the length of the name: nothing is tried twice.
func (p pattern) matches(name string) bool {
	for i, s := range p.segments {
		first, rest, more := strings.Cut(name, "/")
		if !s.matches(first) {
			return false
		}
		if i == len(p.segments)-1 {
			return more == p.below && (rest != "") == p.below
		}
		if !more {
			return false
		}
		name = rest
	}
	return p.all()
}

func (s segment) matches(text string) bool {
	last := len(s) - 1
	if last == 0 {
		return text == s[0]
	}
	if text == "" {
		return false
	}
	text, ok := strings.CutPrefix(text, s[0])
	if !ok {
		return false
	}
	if text, ok = strings.CutSuffix(text, s[last]); !ok {
		return false
	}
	for _, literal := range s[1:last] {
		// Where it comes first leaves the most for those that follow.
		if _, text, ok = strings.Cut(text, literal); !ok {
			return false
		}
	}
	return true
}

// span returns the smallest range of names that holds all that match.
func (p pattern) span() Range {
	prefix, _, wild := strings.Cut(p.text, "*")
	return Range{Prefix: prefix, Exact: !wild}
}
