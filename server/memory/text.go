package memory

import (
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
	const width = 6
	digits := strconv.FormatInt(number, 10)
	for range width - len(digits) {
		b.WriteByte(' ')
	}
	b.WriteString(digits)
	b.WriteByte('\t')
	b.WriteString(line)
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

// viewText shows a text file, or a range of its lines: at most maxChars code points of it, 0 for no limit.
func viewText(path, text string, r *Range, maxChars int64) (string, *failure) {
	n := countLines(text)
	if n > MaxLines {
		return "", fail(ReasonViewTooManyLines, "File %s exceeds maximum line limit of 999,999 lines.", path)
	}
	s, f := selectSpan(r, n, "line", "lines of the file")
	if f != nil {
		return "", f
	}

	rest := text[lineOffset(text, s.first-1):]
	var b strings.Builder
	b.WriteString("Here's the content of " + path + " with line numbers:\n")
	var chars, newline int64
	for number := s.first; number <= s.last; number++ {
		var line string
		line, rest = cutLine(rest)
		lineChars := int64(utf8.RuneCountInString(line))
		if maxChars > 0 && chars+newline+lineChars > maxChars {
			if number == s.first {
				clipFirstLine(&b, line, maxChars, s, n)
			} else {
				fmt.Fprintf(&b, clipNote+"Lines %d to %d of %d are shown; use view_range [%d, %d] to see the rest.</NOTE>",
					"file", s.first, number-1, n, number, s.end(n))
			}
			return b.String(), nil
		}
		if number > s.first {
			b.WriteByte('\n')
		}
		numberLine(&b, number, line)
		chars += newline + lineChars
		newline = 1
	}
	return b.String(), nil
}

// clipFirstLine shows the beginning of a line that is too long by itself.
func clipFirstLine(b *strings.Builder, line string, maxChars int64, s span, n int64) {
	numberLine(b, s.first, firstChars(line, int(maxChars)))
	fmt.Fprintf(b, clipNote+"Only the first %d characters of line %d of %d are shown", "file", maxChars, s.first, n)
	if s.first < s.last {
		fmt.Fprintf(b, "; use view_range [%d, %d] to see the lines after it", s.first+1, s.end(n))
	}
	b.WriteString(".</NOTE>")
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
