package screen

import (
	"math"
	"strings"
	"unicode/utf8"
)

// words tells whether a text has any of some words, in small or capital letters, as strings.ToLower has it. It reads
// the text once, which is much less than what a detector does to find the same out: most texts have none, and need none
// of that. It is the automaton of Aho and Corasick.
type words struct {
	always bool        // it cannot tell, and says yes
	class  [256]uint16 // what a byte is to the words; 0 is one that none has
	// next is the state after a state and a class, at the sum of the two: a state is where its row begins. The first is 0.
	next []uint32
	ends map[uint32]bool // the states in which a word ends
}

const (
	// rowSize is more than there are classes: small letters, digits and signs.
	rowSize = 128
	// found is the state in which any word ends.
	found = math.MaxUint32
)

// newWords returns the words of a list.
func newWords(list []string) *words {
	w := &words{ends: make(map[uint32]bool)}
	classes := uint16(1)
	for _, word := range list {
		word = strings.ToLower(word)
		w.always = w.always || word == ""
		for i := range len(word) {
			w.always = w.always || word[i] >= utf8.RuneSelf
			if w.class[word[i]] == 0 {
				w.class[word[i]] = classes
				classes++
			}
		}
	}
	if w.always {
		return w
	}
	for c := 'a'; c <= 'z'; c++ {
		w.class[c-'a'+'A'] = w.class[c]
	}
	w.addState()
	for _, word := range list {
		w.add(strings.ToLower(word))
	}
	w.link()
	return w
}

func (w *words) addState() (state uint32) {
	w.next = append(w.next, make([]uint32, rowSize)...)
	return uint32(len(w.next) - rowSize)
}

// row is the states after a state, by class.
func (w *words) row(state uint32) []uint32 { return w.next[state:][:rowSize] }

// add adds a word to the tree that the states are until they are linked.
func (w *words) add(word string) {
	var state uint32
	for i := range len(word) {
		class := w.class[word[i]]
		after := w.row(state)[class]
		if after == 0 {
			after = w.addState()
			w.row(state)[class] = after
		}
		state = after
	}
	w.ends[state] = true
}

// link makes the states go on where their words do not: with the longest end of what was read that a word begins with.
func (w *words) link() {
	shorter := make(map[uint32]uint32) // the state of that end
	for queue := []uint32{0}; len(queue) > 0; queue = queue[1:] {
		state := queue[0]
		row, other := w.row(state), w.row(shorter[state])
		for class, after := range row {
			switch {
			case after == 0:
				row[class] = other[class]
				continue
			case state != 0:
				shorter[after] = other[class]
			}
			if w.ends[after] || shorter[after] == found {
				row[class] = found
				continue
			}
			queue = append(queue, after)
		}
	}
}

// Letters beyond ASCII whose small letter is within it: the sign of Kelvin, and the I of Turkish with a dot.
const (
	kelvin  = "\u212a"
	dottedI = "\u0130"
)

// in tells whether a text has any of the words. It may say so of one that has one of the two letters above.
func (w *words) in(text string) bool {
	if w.always || strings.Contains(text, kelvin) || strings.Contains(text, dottedI) {
		return true
	}
	var state uint32
	for i := range len(text) {
		if state = w.next[state+uint32(w.class[text[i]])]; state == found {
			return true
		}
	}
	return false
}
