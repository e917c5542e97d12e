package screen

import (
	"iter"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// ruleGeneric flags whatever stands after a word like "key" or "auth". Notes are full of these words, and its regular
// expression takes half a microsecond for a byte. So it is tried only where it can find anything, which is seen at a
// glance: around a run of letters, digits and a few signs that has enough different ones for its entropy, and one that
// is not in words, since it makes an exception for those; and where one of its words is near before that.
const (
	// minDistinct is how many different characters an entropy above 3.5 needs.
	minDistinct = 12
	// wordReach is how far before the secret the word may begin: 10 characters of the word itself and 32 behind it.
	wordReach = 42
	// matchReach is how far before the secret the match may begin, with some to spare: 50 characters before the word.
	matchReach = wordReach + 50 + 8
	// endReach is how far behind the secret the match may end, which is a character.
	endReach = utf8.UTFMax
)

// runChar tells what a character is to the secrets of ruleGeneric.
var runChar = func() (class [256]uint8) {
	for c := range class {
		switch {
		case '0' <= c && c <= '9', strings.IndexByte("=+/", byte(c)) >= 0:
			class[c] = notInWords
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', strings.IndexByte("_.-", byte(c)) >= 0:
			class[c] = inWords
		}
	}
	return class
}()

const (
	inWords    = 1
	notInWords = 2
)

// span is a part of a text.
type span struct{ start, end int }

// genericSpans are the parts of a text in which ruleGeneric can find anything, by its words. They may overlap.
func genericSpans(text string, generic *words) iter.Seq[span] {
	return func(yield func(span) bool) {
		if !generic.in(text) {
			return
		}
		var last span
		for at := 0; at < len(text); at++ {
			start := at
			var seen [4]uint64
			var classes uint8
			for at < len(text) && runChar[text[at]] != 0 {
				classes |= runChar[text[at]]
				seen[text[at]>>6] |= 1 << (text[at] & 63)
				at++
			}
			if classes&notInWords == 0 || at-start < minDistinct || distinct(seen) < minDistinct ||
				!generic.in(text[max(0, start-wordReach):at]) {
				continue
			}
			next := span{max(0, start-matchReach), min(len(text), at+endReach)}
			// To the start of the line, where that is nearer.
			next.start += strings.IndexByte(text[next.start:max(next.start, start-wordReach)], '\n') + 1
			if last.end == 0 {
				last = next
				continue
			}
			if next.start <= last.end && next.end-last.start <= pieceBytes {
				last.end = next.end
				continue
			}
			if !yield(last) {
				return
			}
			last = next
		}
		if last.end > 0 {
			yield(last)
		}
	}
}

func distinct(seen [4]uint64) (n int) {
	for _, word := range seen {
		n += bits.OnesCount64(word)
	}
	return n
}
