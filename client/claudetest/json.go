package claudetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A reader reads JSON that a client sent. It remembers the first thing that is wrong, so that what reads with it needs
// no error after every step; what it returns after that are zero values.
type reader struct {
	wrong         *Failure
	cacheControls int // cache breakpoints read
}

// fail remembers that something is wrong at a place, in the manner of the API: "messages.0.role: Field required".
func (r *reader) fail(place, format string, args ...any) {
	if r.wrong == nil {
		f := Invalid(strings.TrimPrefix(place+": ", ": ") + fmt.Sprintf(format, args...))
		r.wrong = &f
	}
}

// failCode is fail with an error code.
func (r *reader) failCode(code, place, format string, args ...any) {
	if r.wrong == nil {
		r.fail(place, format, args...)
		r.wrong.ErrorCode = code
	}
}

// An object is a JSON object and its place in the request.
type object struct {
	r       *reader
	place   string // empty for the request itself
	members map[string]json.RawMessage
}

// object reads an object.
func (r *reader) object(place string, raw json.RawMessage) object {
	o := object{r: r, place: place}
	if isNull(raw) || json.Unmarshal(raw, &o.members) != nil {
		r.fail(place, "Input should be an object")
	}
	return o
}

// isJSON tells whether b is JSON as the API wants it: in UTF-8, and without half an escaped surrogate pair, which
// encoding/json lets pass.
func isJSON(b []byte) bool {
	if !json.Valid(b) || !utf8.Valid(b) {
		return false
	}
	for {
		i := bytes.IndexByte(b, '\\') // only strings have any
		if i < 0 {
			return true
		}
		b = b[i:]
		r := escaped(b)
		b = b[2:]
		if utf16.IsSurrogate(r) {
			b = b[4:]
			if utf16.DecodeRune(r, escaped(b)) == utf8.RuneError {
				return false
			}
			b = b[6:]
		}
	}
}

// escaped returns what \u and four digits at the start of JSON stand for, 0 if there is something else.
func escaped(b []byte) rune {
	if len(b) < len(`\u0000`) || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// at returns the place of a member.
func (o object) at(key string) string { return strings.TrimPrefix(o.place+"."+key, ".") }

// has tells whether a member is there and not null.
func (o object) has(key string) bool {
	raw, ok := o.members[key]
	return ok && !isNull(raw)
}

// require complains of a member that is missing.
func (o object) require(key string) {
	if !o.has(key) {
		o.r.fail(o.at(key), "Field required")
	}
}

// text reads a string that may be missing.
func (o object) text(key string) string {
	return readMember[string](o, key, "Input should be a valid string")
}

// flag reads a boolean that may be missing.
func (o object) flag(key string) bool {
	return readMember[bool](o, key, "Input should be a valid boolean")
}

// list reads an array that may be missing.
func (o object) list(key string) []json.RawMessage {
	return readMember[[]json.RawMessage](o, key, "Input should be a valid list")
}

// texts reads an array of strings that may be missing.
func (o object) texts(key string) []string {
	return readMember[[]string](o, key, "Input should be a valid list of strings")
}

// number reads an integer of at least least; a missing one is otherwise. 5.0 is one too.
func (o object) number(key string, least, otherwise int) int {
	if !o.has(key) {
		return otherwise
	}
	const wrong = "Input should be a valid integer"
	f := readMember[float64](o, key, wrong)
	n := int(f)
	if float64(n) != f {
		o.r.fail(o.at(key), wrong)
	}
	if n < least {
		o.r.fail(o.at(key), "Input should be greater than or equal to %d", least)
	}
	return n
}

// object reads a member that is an object; ok tells whether it is there.
func (o object) object(key string) (member object, ok bool) {
	if !o.has(key) {
		return object{r: o.r, place: o.at(key)}, false
	}
	return o.r.object(o.at(key), o.members[key]), true
}

// readMember reads a member of a type; a missing one is the zero value.
func readMember[T any](o object, key, wrong string) T {
	var v T
	if o.has(key) && json.Unmarshal(o.members[key], &v) != nil {
		o.r.fail(o.at(key), "%s", wrong)
	}
	return v
}

// appendJSON appends the JSON of v to b, without the escapes that are there for HTML.
func appendJSON(b []byte, v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only types of this package, which can all be encoded
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
