package memory

import (
	"slices"
	"strconv"
	"strings"
)

// snippetLines is how many lines around a change its snippet shows on each side.
const snippetLines = 2

// maxListedMatches is how many lines the error for several matches lists.
const maxListedMatches = 20

// replaceOnce replaces the one place where oldStr, which is not empty, occurs in a text.
func replaceOnce(path, text, oldStr, newStr string) (change, *failure) {
	at := strings.Index(text, oldStr)
	if at < 0 {
		return change{}, fail(ReasonStrReplaceNoMatch,
			"No replacement was performed, old_str `%s` did not appear verbatim in %s.%s",
			echo(oldStr), path, hint(text, oldStr))
	}
	// Overlapping places count too, so the search goes on one byte further.
	if strings.Contains(text[at+1:], oldStr) {
		return change{}, fail(ReasonStrReplaceMultipleMatches,
			"No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please ensure it is unique",
			echo(oldStr), matchLines(text, oldStr))
	}
	head, tail := commonEnds(oldStr, newStr)
	return change{
		text:    text[:at] + newStr + text[at+len(oldStr):],
		start:   at + head,
		end:     at + len(newStr) - tail,
		at:      at,
		removed: oldStr[head : len(oldStr)-tail],
	}, nil
}

// commonEnds returns how many bytes two texts have in common at their beginning, and at the end of the rest.
func commonEnds(a, b string) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// matchLines lists the lines in which the matches of a pattern start.
func matchLines(text, pattern string) string {
	var lines []string
	line, counted, more := int64(1), 0, 0
	for at := range matches(text, pattern) {
		if len(lines) == maxListedMatches {
			more++
			continue
		}
		line += int64(strings.Count(text[counted:at], "\n"))
		counted = at
		lines = append(lines, strconv.FormatInt(line, 10))
	}
	list := strings.Join(lines, ", ")
	if more > 0 {
		list += " and " + strconv.Itoa(more) + " more"
	}
	return list
}

// matches yields every position at which a pattern, which is not empty, starts in a text, overlapping ones too. It is
// the algorithm of Knuth, Morris and Pratt: searching again from every match would be quadratic for a long run of
// one letter.
func matches(text, pattern string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		border := make([]int32, len(pattern)) // of each prefix: its longest proper prefix that is also a suffix
		for i, k := 1, int32(0); i < len(pattern); i++ {
			for k > 0 && pattern[i] != pattern[k] {
				k = border[k-1]
			}
			if pattern[i] == pattern[k] {
				k++
			}
			border[i] = k
		}
		k := int32(0)
		for i := range len(text) {
			for k > 0 && text[i] != pattern[k] {
				k = border[k-1]
			}
			if text[i] == pattern[k] {
				k++
			}
			if int(k) == len(pattern) {
				if !yield(i + 1 - len(pattern)) {
					return
				}
				k = border[k-1]
			}
		}
	}
}

// snippetAround shows the lines around a line of a text, numbered.
func snippetAround(text string, line int64) string {
	first := max(line-snippetLines, 1)
	rest := text[lineOffset(text, first-1):]
	last := min(line+snippetLines, first-1+countLines(rest))
	var b strings.Builder
	for number := first; number <= last; number++ {
		if number > first {
			b.WriteByte('\n')
		}
		var shown string
		shown, rest = cutLine(rest)
		numberLine(&b, number, shown)
	}
	return b.String()
}

// insertLines puts a text after a line of another; 0 is the top.
func insertLines(text string, line int64, inserted string) (change, *failure) {
	n := countLines(text)
	if line < 0 || line > n {
		return change{}, fail(ReasonInsertLineInvalid, "Error: Invalid `insert_line` parameter: %d. "+
			"It should be within the range of lines of the file: [0, %d]", line, n)
	}
	inserted = strings.TrimSuffix(inserted, "\n")
	at := len(text)
	if line == n {
		inserted = "\n" + inserted
	} else {
		at = lineOffset(text, line)
		inserted += "\n"
	}
	return change{text: text[:at] + inserted + text[at:], start: at, end: at + len(inserted), at: at}, nil
}

// hint says what may be wrong with an old_str that was not found; "" where nothing is near.
func hint(text, oldStr string) string {
	if bare, ok := withoutGutter(oldStr); ok && strings.Contains(text, bare) {
		return "\nHint: the line numbers and the tab after them are added by view and are not part of the file."
	}
	if strings.Contains(oldStr, "\n") && !strings.Contains(oldStr, "\r\n") &&
		strings.Contains(text, strings.ReplaceAll(oldStr, "\n", "\r\n")) {
		return "\nHint: the file uses CRLF line endings; write \\r\\n in old_str."
	}
	if bare := strings.TrimRight(oldStr, "\n"); bare != "" && bare != oldStr && strings.Contains(text, bare) {
		return "\nHint: old_str ends with a newline that the file does not have there."
	}
	if strings.Trim(oldStr, " \t\r\n") != "" {
		folded := foldBlanks(text)
		if at := strings.Index(folded, foldBlanks(oldStr)); at >= 0 {
			line := strconv.FormatInt(countLines(folded[:at]), 10)
			return "\nHint: line " + line + " differs from old_str only in spaces and tabs."
		}
	}
	return ""
}

// withoutGutter removes the line numbers of a view from a text. It is not ok unless every line that is not empty has
// one, and something besides newlines is left.
func withoutGutter(s string) (bare string, ok bool) {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		number, content, found := strings.Cut(strings.TrimLeft(line, " "), "\t")
		if !found || number == "" || strings.Trim(number, "0123456789") != "" {
			return "", false
		}
		lines[i] = content
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return line != "" }) {
		return "", false
	}
	return strings.Join(lines, "\n"), true
}

// foldBlanks makes one space of every run of spaces and tabs.
func foldBlanks(s string) string {
	b := make([]byte, 0, len(s))
	blank := false
	for i := range len(s) {
		c := s[i]
		if c == ' ' || c == '\t' {
			if !blank {
				b = append(b, ' ')
			}
			blank = true
			continue
		}
		blank = false
		b = append(b, c)
	}
	return string(b)
}
