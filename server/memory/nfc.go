package memory

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is how many combining marks in a row golang.org/x/text leaves alone: after them it puts in a U+034F, for
// what Unicode calls the Stream-Safe Text Format. NFC itself does not, and it would make two names of one.
const maxMarks = 30

// toNFC returns a text in Unicode NFC.
func toNFC(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		return s
	}
	runes, marks := decompose(s)
	if marks <= maxMarks {
		return norm.NFC.String(s)
	}
	return string(compose(runes))
}

// decompose returns a text in NFD, and the most combining marks that are in a row in it.
func decompose(s string) (runes []rune, marks int) {
	start := 0 // of the marks at the end
	for _, r := range s {
		for _, d := range norm.NFD.String(string(r)) {
			if runes = append(runes, d); combiningClass(d) == 0 {
				sortMarks(runes[start : len(runes)-1])
				start = len(runes)
			}
			marks = max(marks, len(runes)-start)
		}
	}
	sortMarks(runes[start:])
	return runes, marks
}

// sortMarks puts combining marks into canonical order.
func sortMarks(marks []rune) {
	slices.SortStableFunc(marks, func(a, b rune) int { return int(combiningClass(a)) - int(combiningClass(b)) })
}

func combiningClass(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// compose makes NFC of NFD: the canonical composition algorithm of the Unicode Standard, section 3.11.
func compose(runes []rune) []rune {
	composed := make([]rune, 0, len(runes))
	starter := -1       // where the last starter is in composed
	var lastClass uint8 // of what is after it
	for _, r := range runes {
		class := combiningClass(r)
		if starter >= 0 && (lastClass < class || lastClass == 0) {
			if pair := []rune(norm.NFC.String(string([]rune{composed[starter], r}))); len(pair) == 1 {
				composed[starter] = pair[0]
				continue
			}
		}
		if lastClass = class; class == 0 {
			starter = len(composed)
		}
		composed = append(composed, r)
	}
	return composed
}
