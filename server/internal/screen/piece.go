package screen

import (
	"iter"
	"strings"
	"unicode/utf8"
)

const (
	// pieceBytes is how much of a text the detector is given at once.
	pieceBytes = 48 << 10
	// overlapBytes is how much of it the next piece has again: more than the longest secret that has a longest.
	overlapBytes = 16 << 10
	// alignBytes is how far a piece is moved so that it begins or ends where a line does.
	alignBytes = 4 << 10
)

// piece is a part of a text.
type piece struct {
	start, end       int
	cutHead, cutTail bool // it begins or ends within a line
	next             int  // where the next piece begins; the end of the part where there is none
}

// pieces cuts a part of a text, at the ends of lines where they are near.
func pieces(text string, part span) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for start, cut := part.start, false; ; {
			p := piece{start: start, end: part.end, cutHead: cut, next: part.end}
			if part.end-start > pieceBytes {
				p.end, p.cutTail = lineStart(text, start+pieceBytes)
				p.next, cut = lineStart(text, p.end-overlapBytes)
			}
			if !yield(p) || p.end == part.end {
				return
			}
			start = p.next
		}
	}
}

// lineStart returns the start of a line at or near before an index, or the start of a rune with cut true.
func lineStart(text string, at int) (start int, cut bool) {
	low := at - alignBytes
	if i := strings.LastIndexByte(text[low:at], '\n'); i >= 0 {
		return low + i + 1, false
	}
	for i := range utf8.UTFMax {
		if utf8.RuneStart(text[at-i]) {
			return at - i, true
		}
	}
	return at, true
}

// sees tells whether the piece shows a match as it is. One that touches a cut may be longer in truth, or none at all;
// the piece before or the next one has all of it.
func (p piece) sees(start, end int) bool {
	switch {
	case p.cutHead && start == p.start:
		return false
	case p.cutTail && end == p.end:
		return start <= p.next
	}
	return true
}
