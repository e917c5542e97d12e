package memory

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// clipNote begins what a view says where it does not show everything.
const clipNote = "\n<response clipped><NOTE>To save on context only part of this %s has been shown to you. "

// countLines returns the lines of a text: a line ends at "\n" and nowhere else, so an empty text has one.
func countLines(text string) int64 { return int64(strings.Count(text, "\n")) + 1 }

// lineOffset returns where the line after the given number of lines starts.
func lineOffset(text string, lines int64) int {
	offset := 0
	for ; lines > 0; lines-- {
		offset += strings.IndexByte(text[offset:], '\n') + 1
	}
	return offset
}

// cutLine returns the first line of a text and the rest after its "\n".
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return line, rest
}

// numberLine appends a line as views show it, "%6d\t%s".
func numberLine(b *strings.Builder, number int64, line string) {
	var room [32]byte
	b.Write(appendNumber(room[:0], number))
	b.WriteString(line)
}

// numberBytes is what numberLine adds to a line of a file that can be viewed.
const numberBytes = 7

// appendNumber appends the number of a line, from 1, and what follows it.
func appendNumber(shown []byte, number int64) []byte {
	if number > MaxLines {
		return append(strconv.AppendInt(shown, number, 10), '\t')
	}
	field := [numberBytes]byte{' ', ' ', ' ', ' ', ' ', ' ', '\t'}
	for i := numberBytes - 2; number > 0; i-- {
		field[i] = byte('0' + number%10)
		number /= 10
	}
	return append(shown, field[:]...)
}

// span is a range that was checked against what there is: from first to last, counted from 1, both included.
type span struct{ first, last int64 }

// selectSpan checks a range against a number of lines or entries. unit is "line" or "entry", of what it names.
func selectSpan(r *Range, n int64, unit, of string) (span, *failure) {
	if r == nil {
		return span{1, n}, nil
	}
	s := span{max(r.Start, 1), min(r.End, n)}
	if r.End == -1 {
		s.last = n
	}
	if s.first > s.last {
		return span{}, fail(ReasonViewRangeInvalid, "Error: Invalid `view_range` parameter: [%d, %d]. "+
			"It should be [start_%s, end_%s] within the %s: [1, %d], or [start_%s, -1] to read to the end",
			r.Start, r.End, unit, unit, of, n, unit)
	}
	return s, nil
}

// end is how a note writes the end of the span, of n in all.
func (s span) end(n int64) int64 {
	if s.last == n {
		return -1
	}
	return s.last
}

// viewText appends to no bytes, which may have room, what a view shows of a text file, or of a range of its lines: at
// most maxChars code points of it, 0 for no limit.
func viewText(shown []byte, path string, text []byte, r *Range, maxChars int64) ([]byte, *failure) {
	n := int64(bytes.Count(text, []byte{'\n'})) + 1
	if n > MaxLines {
		return nil, fail(ReasonViewTooManyLines, "File %s exceeds maximum line limit of 999,999 lines.", path)
	}
	s, f := selectSpan(r, n, "line", "lines of the file")
	if f != nil {
		return nil, f
	}

	rest := text
	for range s.first - 1 {
		rest = rest[bytes.IndexByte(rest, '\n')+1:]
	}
	shown = append(shown, "Here's the content of "...)
	shown = append(shown, path...)
	shown = append(shown, " with line numbers:\n"...)
	limited := maxChars > 0 && int64(len(rest)) > maxChars // There are never more characters than bytes.
	var chars int64
	for number := s.first; number <= s.last; number++ {
		line := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			line, rest = rest[:end], rest[end+1:]
		}
		if limited {
			chars += int64(utf8.RuneCount(line))
			if chars > maxChars {
				return clip(shown, line, number, s, n, maxChars), nil
			}
			chars++ // its newline, which counts before the next line
		}
		if number > s.first {
			shown = append(shown, '\n')
		}
		shown = appendNumber(shown, number)
		shown = append(shown, line...)
	}
	return shown, nil
}

// clip appends that the view ends before a line. Of the first one it shows the beginning, since it is too long by
// itself.
func clip(shown, line []byte, number int64, s span, n, maxChars int64) []byte {
	if number > s.first {
		return fmt.Appendf(shown, clipNote+"Lines %d to %d of %d are shown; use view_range [%d, %d] to see the rest.</NOTE>",
			"file", s.first, number-1, n, number, s.end(n))
	}
	shown = append(appendNumber(shown, number), firstChars(string(line), int(maxChars))...)
	shown = fmt.Appendf(shown, clipNote+"Only the first %d characters of line %d of %d are shown", "file", maxChars,
		s.first, n)
	if s.first < s.last {
		shown = fmt.Appendf(shown, "; use view_range [%d, %d] to see the lines after it", s.first+1, s.end(n))
	}
	return append(shown, ".</NOTE>"...)
}

// imageType returns the media type that the bytes of a file say, "" where they are no image that views show.
func imageType(data []byte) string {
	switch {
	case strings.HasPrefix(string(data[:min(len(data), 8)]), "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(string(data[:min(len(data), 3)]), "\xff\xd8\xff"):
		return "image/jpeg"
	}
	return ""
}
