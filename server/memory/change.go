package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// change is the new text of a file, and what of it is new. The text need not be UTF-8.
type change struct {
	text       string
	start, end int // of text: the bytes that were not there before; none where something was only taken away
	at         int // of text: where the edit was made
	// removed is what was there before in place of the new bytes. It is unknown where all of the text is new.
	removed string
}

// newText is the change that makes all of a file new.
func newText(text string) change { return change{text: text, end: len(text)} }

// snippet shows the lines around the place where the edit was made.
func (c change) snippet() string { return snippetAround(c.text, countLines(c.text[:c.at])) }

const (
	// contextBytes is how much of a text is searched for secrets on each side of what is new in it. Secrets may be
	// written in parts, and a private key has 3 to 13 KB.
	contextBytes = 16 << 10
	// contextAlign is how much further it may be to the end of a line.
	contextAlign = 1 << 10
)

// window is a change of which the text is cut to what is searched for secrets.
type window struct {
	change
	before, after string // what was cut off
}

// window cuts the text of a change: to whole lines, where they are not too long.
func (c change) window() window {
	from, to := max(0, c.start-contextBytes), min(len(c.text), c.end+contextBytes)
	low, high := max(0, from-contextAlign), min(len(c.text), to+contextAlign)
	if i := strings.LastIndexByte(c.text[low:from], '\n'); i >= 0 || low == 0 {
		from = low + i + 1
	} else {
		from -= runeHead(c.text[low:], from-low)
	}
	if i := strings.IndexByte(c.text[to:high], '\n'); i >= 0 {
		to += i
	} else if high == len(c.text) {
		to = high
	} else {
		to -= runeHead(c.text[low:], to-low)
	}
	w := window{change: c, before: c.text[:from], after: c.text[to:]}
	w.text = c.text[from:to]
	w.start, w.end, w.at = c.start-from, c.end-from, max(0, c.at-from)
	return w
}

// runeHead is how far an index is behind the start of a rune; 0 in what is not UTF-8.
func runeHead(s string, at int) int {
	for n := range min(utf8.UTFMax, at+1) {
		if at-n == len(s) || utf8.RuneStart(s[at-n]) {
			return n
		}
	}
	return 0
}

// whole is the change with another text, by what its window became.
func (w window) whole(c, masked change) change {
	from := len(w.before)
	if c.at >= from {
		c.at = from + masked.at
	}
	c.text, c.start, c.end = w.before+masked.text+w.after, from+masked.start, from+masked.end
	return c
}

// line is the number of a line of the file, by that of the window.
func (w window) line(inWindow int) int64 { return countLines(w.before) - 1 + int64(inWindow) }

// held is how many bytes of memory the window keeps.
func (w window) held() int { return len(w.before) + len(w.text) + len(w.after) + len(w.removed) }

// hash tells a window from any other.
func (w window) hash() [sha256.Size]byte {
	h := sha256.New()
	var places []byte
	for _, n := range []int{w.start, w.end, w.at, len(w.removed)} {
		places = binary.AppendUvarint(places, uint64(n))
	}
	_, _ = h.Write(places) // never fails
	_, _ = h.Write([]byte(w.removed))
	_, _ = h.Write([]byte(w.text))
	return [sha256.Size]byte(h.Sum(nil))
}

// touches tells whether a finding has to do with what is new.
func (c change) touches(f SecretFinding) bool { return f.Start <= c.end && c.start <= f.End }

// overlaps tells whether the secret itself has something that is new, or was put together by what was taken away.
func (c change) overlaps(f SecretFinding) bool { return f.SecretStart < c.end && c.start < f.SecretEnd }
