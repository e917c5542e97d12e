package claudetest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// A stream writes the events of a message; see https://platform.claude.com/docs/en/build-with-claude/streaming.
type stream struct {
	w         http.ResponseWriter
	requestID string
	cutAfter  int      // 0 never
	failure   *Failure // is sent where the stream is cut; nil closes the connection
	sent      int
	cut       bool
}

// stream sends a message as events, as far as the turn does not cut it off, and tells whether all of it was sent.
func (x *exchange) stream(m *message, t Turn) bool {
	x.w.Header().Set("content-type", "text/event-stream; charset=utf-8")
	x.w.Header().Set("cache-control", "no-cache")
	s := &stream{w: x.w, requestID: x.recorded.ID, cutAfter: t.CutAfter, failure: t.Failure}
	s.message(m)
	if s.cut && s.failure == nil {
		panic(http.ErrAbortHandler) // the connection ends in the middle of the body
	}
	return !s.cut
}

func (s *stream) message(m *message) {
	s.event("message_start", `"message":%s`, m.start())
	for i, b := range m.content {
		s.block(i, b)
	}
	delta := m.appendStop([]byte(`"delta":{`))
	delta = append(delta, `},"usage":`...)
	delta = appendJSON(delta, m.usage)
	s.event("message_delta", "%s", m.appendContextManagement(delta))
	s.event("message_stop", "")
}

// block sends a block: what it starts as, what is added to it, its end. A ping follows the start of the first.
func (s *stream) block(i int, b Block) {
	start, deltas := cutBlock(b)
	s.event("content_block_start", `"index":%d,"content_block":%s`, i, start)
	if i == 0 {
		s.event("ping", "")
	}
	for _, delta := range deltas {
		s.event("content_block_delta", `"index":%d,"delta":%s`, i, delta)
	}
	s.event("content_block_stop", `"index":%d`, i)
}

// cutBlock returns a block as it starts, and what is added to it. Blocks that were given as JSON are not cut.
func cutBlock(b Block) (start []byte, deltas [][]byte) {
	whole := b
	add := func(kind, key string, texts ...string) {
		for _, text := range texts {
			delta := fmt.Appendf(nil, `{"type":"%s","%s":%s}`, kind, key, appendJSON(nil, text))
			deltas = append(deltas, delta)
		}
	}
	switch {
	case whole.Raw != nil:
	case whole.Type == typeText:
		b.Text = ""
		add("text_delta", "text", pieces(whole.Text)...)
	case whole.Type == typeThinking:
		b.Text, b.Signature = "", ""
		add("thinking_delta", "thinking", pieces(whole.Text)...)
		add("signature_delta", "signature", whole.Signature)
	case whole.Type == typeToolUse:
		b.Input = []byte("{}")
		add("input_json_delta", "partial_json", "") // as the API does
		add("input_json_delta", "partial_json", pieces(string(whole.Input))...)
	case whole.Type == typeCompaction:
		b.Text = ""
		deltas = append(deltas, fmt.Appendf(nil, `{"type":"compaction_delta","content":%s,"encrypted_content":null}`,
			appendJSON(nil, orNull(whole.Text))))
	}
	return appendBlock(nil, b), deltas
}

// event sends an event: its type, and further members of its data in a format. Once the stream is cut nothing is sent.
func (s *stream) event(name, format string, args ...any) {
	if s.cut {
		return
	}
	if s.cutAfter > 0 && s.sent == s.cutAfter {
		s.cut = true
		if s.failure != nil {
			s.write("error", s.failure.body(s.requestID))
		}
		return
	}
	data := fmt.Appendf(nil, `{"type":"%s"`, name)
	if format != "" {
		data = append(data, ',')
		data = fmt.Appendf(data, format, args...)
	}
	s.write(name, append(data, '}'))
	s.sent++
}

func (s *stream) write(name string, data []byte) {
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
	// A client that is gone is noticed by the context of the request.
	_ = http.NewResponseController(s.w).Flush()
}

// pieces cuts a text into what is streamed at once: minPieceBytes at first, then more and more up to maxPieceBytes, so
// that a short text has several pieces and a long one not too many. The first escape of a JSON text, if there is one,
// is cut through: \n after the backslash, \u00fc after the first digit.
func pieces(text string) []string {
	cut := strings.IndexByte(text, '\\') + 1
	if 0 < cut && cut+1 < len(text) && text[cut] == 'u' && text[cut+1] < utf8.RuneSelf {
		cut += len("u0")
	}
	return cutText(cutText(nil, text[:cut]), text[cut:])
}

const (
	minPieceBytes = 3
	maxPieceBytes = 2048
)

// cutText appends the pieces of a text, none of which ends inside of a character.
func cutText(pieces []string, text string) []string {
	for size := minPieceBytes; text != ""; size = min(size*2, maxPieceBytes) {
		n := min(size, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}
