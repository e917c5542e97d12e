package memory

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path is a canonical path: the names below /memories, in Unicode NFC. The zero value is /memories itself.
//
// Only parsePath makes one of a requested path, so that no code below it ever sees a raw one.
type Path struct{ names []string }

// String returns the path as listings print it, without a "/" at the end.
func (p Path) String() string {
	if len(p.names) == 0 {
		return Root
	}
	return Root + "/" + strings.Join(p.names, "/")
}

// spelled is String for a path that was parsed from what was requested, which mostly is the same.
func (p Path) spelled(requested string) string {
	rest, ok := strings.CutPrefix(requested, Root)
	for i := 0; ok && i < len(p.names); i++ {
		if rest, ok = strings.CutPrefix(rest, "/"); ok {
			rest, ok = strings.CutPrefix(rest, p.names[i])
		}
	}
	if ok && rest == "" {
		return requested
	}
	return p.String()
}

func (p Path) isRoot() bool { return len(p.names) == 0 }

func (p Path) depth() int { return len(p.names) }

// ancestor returns the directory above p at a depth.
func (p Path) ancestor(depth int) Path { return Path{p.names[:depth]} }

// contains tells whether q is below p.
func (p Path) contains(q Path) bool {
	return len(q.names) > len(p.names) && slices.Equal(p.names, q.names[:len(p.names)])
}

// parsePath reads a path as requested. The order of its checks is part of the contract of the memory tool.
func parsePath(requested string) (Path, *failure) {
	if len(requested) > MaxPathBytes {
		return Path{}, failPathTooLong()
	}
	if strings.ContainsFunc(requested, unseen) || !utf8.ValidString(requested) {
		return Path{}, failInvalidCharacters(requested)
	}
	below, ok := strings.CutPrefix(requested, Root)
	if !ok || below != "" && below[0] != '/' {
		return Path{}, fail(ReasonPathOutsideMemories, "Error: Path must start with /memories, got: %s", requested)
	}
	if climbs(below) {
		return Path{}, fail(ReasonPathTraversal, "Error: Path %s would escape /memories directory", requested)
	}
	if strings.Contains(below, `\`) {
		return Path{}, failInvalidCharacters(requested)
	}
	below = toNFC(below)
	if len(Root)+len(below) > MaxPathBytes {
		return Path{}, failPathTooLong()
	}
	var p Path
	for name := range strings.SplitSeq(below, "/") {
		switch {
		case name == "" || name == ".":
		case len(name) > MaxNameBytes:
			return Path{}, failPathTooLong()
		default:
			p.names = append(p.names, name)
		}
	}
	return p, nil
}

func failInvalidCharacters(requested string) *failure {
	return fail(ReasonPathInvalidCharacters, "Error: Path contains invalid characters: %s", strconv.Quote(requested))
}

// unseen tells whether a character cannot be seen in a name. The zero-width non-joiner and joiner are how some scripts
// and emoji are spelled, so they are allowed.
func unseen(r rune) bool {
	if r < utf8.RuneSelf { // as nearly all are, which need no tables
		return r < ' ' || r == '\x7f'
	}
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// climbs tells whether a path has the segment "..", plainly or after any number of percent-decodings, between slashes
// of either kind.
func climbs(path string) bool {
	if !strings.Contains(path, "..") && !strings.Contains(path, "%") {
		return false
	}
	for {
		isSlash := func(r rune) bool { return r == '/' || r == '\\' }
		for name := range strings.FieldsFuncSeq(path, isSlash) {
			if name == ".." {
				return true
			}
		}
		decoded := percentDecode(path)
		if decoded == path {
			return false
		}
		path = decoded
	}
}

// percentDecode decodes every %XX and leaves any other "%" as it is.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// hiddenName tells whether listings leave a name out.
func hiddenName(name string) bool { return name[0] == '.' || name == "node_modules" }

// isImageName tells whether a name is one of an image.
func isImageName(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".png") || strings.HasSuffix(name, ".jpg") || strings.HasSuffix(name, ".jpeg")
}
