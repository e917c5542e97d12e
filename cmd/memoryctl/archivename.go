package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// rootPath is the directory that all paths of a memory are below.
const rootPath = "/memories"

// The limits of the service.
const (
	maxPathBytes = 1024
	maxNameBytes = 255
)

// memoryPath returns the path below prefix that an entry of an archive gets, spelled as in the archive, or else why
// there is none. The first memories/ of a name, which export writes, is prefix itself.
//
// It knows the rules of the service, which checks again, so that all names of an archive can be judged before any is
// sent.
func memoryPath(prefix, name string) (path, refusal string) {
	switch {
	case !utf8.ValidString(name):
		return "", "its name is not valid UTF-8"
	case strings.ContainsFunc(name, unseen):
		return "", "its name has characters that cannot be seen"
	case climbs(name):
		return "", `its name has a ".." in it`
	case strings.Contains(name, `\`):
		return "", "its name has a backslash in it"
	}
	below := slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
	if len(below) > 0 && below[0] == strings.TrimPrefix(rootPath, "/") {
		below = below[1:]
	} else if strings.HasPrefix(name, "/") {
		return "", "its name is absolute and not below " + rootPath
	}
	path = strings.Join(append([]string{prefix}, below...), "/")
	composed := norm.NFC.String(path)
	tooLong := func(s string) bool { return len(s) > maxNameBytes }
	if max(len(path), len(composed)) > maxPathBytes || slices.ContainsFunc(strings.Split(composed, "/"), tooLong) {
		return "", "its name is too long: a name may have at most 255 bytes and a whole path at most 1024"
	}
	return path, ""
}

// unseen tells whether a character cannot be seen in a name. The zero-width non-joiner and joiner are how some scripts
// and emoji are spelled.
func unseen(r rune) bool {
	return r != '\u200c' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

var percentByte = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// climbs tells whether a name has the segment "..", plainly or after any number of percent-decodings, between slashes
// of either kind.
func climbs(name string) bool {
	for {
		isSlash := func(r rune) bool { return r == '/' || r == '\\' }
		if slices.Contains(strings.FieldsFunc(name, isSlash), "..") {
			return true
		}
		decoded := percentByte.ReplaceAllStringFunc(name, func(s string) string {
			c, _ := strconv.ParseUint(s[1:], 16, 8) // the expression has matched
			return string([]byte{byte(c)})
		})
		if decoded == name {
			return false
		}
		name = decoded
	}
}

// foldName returns the same for all names that differ only in case or Unicode form: file systems take those for one.
// It changes no "/" and makes none.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, norm.NFD.String(name))
}
