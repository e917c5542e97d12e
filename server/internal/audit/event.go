package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// OutcomeOK is the outcome of what was done.
const OutcomeOK = "ok"

// The longest strings of a line in bytes. Those that the service takes fit. Longer ones were refused, and their
// beginning tells enough.
const (
	maxNameBytes      = 256 // of principals, peers, methods, commands and outcomes
	maxIDBytes        = 128 // of sessions and request ids
	maxNamespaceBytes = 200
	maxPathBytes      = 1024

	maxCredentialBytes = 300 // a name in a certificate, with what it is
	maxSettings        = 32  // of one event
)

// cutMark is the end of a string that was too long.
const cutMark = "…"

// Event is one line of the trail: a write, a denial or an act of administration. It never holds contents.
type Event struct {
	Time      time.Time `json:"time"` // when the call ended
	Principal string    `json:"principal"`
	// Credential is what the caller was known by, such as "uid 1000"; of a token it has the beginning of its hash.
	Credential string   `json:"credential,omitempty"`
	Peer       string   `json:"peer,omitempty"` // the address of the caller
	Session    string   `json:"session,omitempty"`
	RequestID  string   `json:"request_id,omitempty"`   // of the API, under which a change happens once
	XRequestID string   `json:"x_request_id,omitempty"` // finds the call again in the log
	Method     string   `json:"method"`                 // such as "/memoryd.v1.MemoryService/Create"
	Command    string   `json:"command,omitempty"`      // such as "create"; "" where there is none
	Namespace  string   `json:"namespace,omitempty"`
	Path       string   `json:"path,omitempty"`
	NewPath    string   `json:"new_path,omitempty"`
	Settings   Settings `json:"settings,omitempty"` // of the namespace, that were to change
	Outcome    string   `json:"outcome"`            // OutcomeOK, a reason such as "file_quota", or a code of gRPC
	Revision   int64    `json:"revision,omitempty"` // of the namespace after the change; 0 where there was none
}

// line returns the line of an event, with its newline.
func (e Event) line() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.bounded()); err != nil {
		return nil, fmt.Errorf("encode audit event: %w", err)
	}
	return printable(buf.Bytes()), nil
}

// bounded returns the event with strings and a time that a line can hold.
func (e Event) bounded() Event {
	e.Time = e.Time.UTC()
	if year := e.Time.Year(); year < 0 || year > 9999 { // JSON has no others
		e.Time = time.Time{}
	}
	for _, name := range []*string{&e.Principal, &e.Peer, &e.Method, &e.Command, &e.Outcome} {
		*name = bounded(*name, maxNameBytes)
	}
	e.Credential = bounded(e.Credential, maxCredentialBytes)
	e.Session = bounded(e.Session, maxIDBytes)
	e.RequestID = bounded(e.RequestID, maxIDBytes)
	e.XRequestID = bounded(e.XRequestID, maxIDBytes)
	e.Namespace = bounded(e.Namespace, maxNamespaceBytes)
	e.Path = bounded(e.Path, maxPathBytes)
	e.NewPath = bounded(e.NewPath, maxPathBytes)
	return e
}

// bounded returns s as valid UTF-8 of at most limit bytes.
func bounded(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	end := limit - len(cutMark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// printable escapes the characters of a line that JSON may hold as they are, and that a terminal would obey or hide:
// control characters beyond ASCII, and those that change the direction of what follows.
func printable(line []byte) []byte {
	hidden := func(r rune) bool { return r >= utf8.RuneSelf && !unicode.IsPrint(r) || r == '\x7f' }
	if bytes.IndexFunc(line, hidden) < 0 {
		return line
	}
	out := make([]byte, 0, 2*len(line))
	for _, r := range string(line) {
		if !hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}
