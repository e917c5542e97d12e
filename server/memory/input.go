package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// Repair is a kind of slip in the input of a tool call that Parse put right.
type Repair string

// The slips that Parse puts right.
const (
	RepairStringInput  Repair = "string_input"  // the whole input as a JSON string
	RepairStringNumber Repair = "string_number" // a whole number as a string
	RepairFloatNumber  Repair = "float_number"  // a whole number as a float, such as 5.0 or 1e2
	RepairStringRange  Repair = "string_range"  // view_range as a string
	RepairRangeLength  Repair = "range_length"  // a view_range that has not two members, which is ignored
	RepairNullField    Repair = "null_field"    // null for an absent field
	RepairExtraField   Repair = "extra_field"   // a field that the command does not have
	RepairAlias        Repair = "alias"         // the name that a neighbouring command has for a field
)

// Parse reads the input of a tool_use block. Unmistakable slips are put right and reported, each kind once; where more
// is wrong, the command is nil and the result says what to send.
func Parse(input string) (Command, []Repair, Result) {
	p := parser{fields: map[string]json.RawMessage{}}
	cmd, f := p.command(input)
	if f != nil {
		return nil, p.repairs, f.result()
	}
	return cmd, p.repairs, Result{}
}

// jsonBlanks is what may be around a JSON value. Unicode has more blanks, which are not JSON.
const jsonBlanks = " \t\r\n"

// parser reads one input.
type parser struct {
	fields  map[string]json.RawMessage
	repairs []Repair
}

// field is one field of a command and where its value goes: one of text, number and span.
type field struct {
	name     string
	optional bool
	aliases  []string // taken, where they hold a string, for a field that is absent or null
	text     *string
	number   *int64
	span     **Range
}

func (p *parser) command(input string) (Command, *failure) {
	if !p.object(input) {
		return nil, fail(ReasonInputNotObject, "Error: The input must be a JSON object with a command: "+
			"view, create, str_replace, insert, delete or rename")
	}
	var name string
	if f := p.read(field{name: "command", text: &name}); f != nil {
		return nil, f
	}
	switch name {
	case "view":
		var c View
		f := p.readAll(field{name: "path", text: &c.Path}, field{name: "view_range", optional: true, span: &c.Range})
		return c, f
	case "create":
		var c Create
		f := p.readAll(field{name: "path", text: &c.Path},
			field{name: "file_text", aliases: []string{"content", "text"}, text: &c.FileText})
		return c, f
	case "str_replace":
		var c StrReplace
		f := p.readAll(field{name: "path", text: &c.Path}, field{name: "old_str", text: &c.OldStr},
			field{name: "new_str", optional: true, text: &c.NewStr})
		return c, f
	case "insert":
		var c Insert
		f := p.readAll(field{name: "path", text: &c.Path}, field{name: "insert_line", number: &c.InsertLine},
			field{name: "insert_text", aliases: []string{"new_str", "text"}, text: &c.InsertText})
		return c, f
	case "delete":
		var c Delete
		f := p.readAll(field{name: "path", text: &c.Path})
		return c, f
	case "rename":
		var c Rename
		f := p.readAll(field{name: "old_path", aliases: []string{"path"}, text: &c.OldPath},
			field{name: "new_path", text: &c.NewPath})
		return c, f
	}
	return nil, fail(ReasonUnknownCommand,
		"Error: Unknown command: %s. Use view, create, str_replace, insert, delete or rename", echo(name))
}

// object reads the input as a JSON object, or as a string that holds one.
func (p *parser) object(input string) bool {
	input = strings.Trim(input, jsonBlanks)
	if isString(json.RawMessage(input)) {
		var inner string
		if json.Unmarshal([]byte(input), &inner) != nil {
			return false
		}
		p.repaired(RepairStringInput)
		input = inner
	}
	d := json.NewDecoder(strings.NewReader(input))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		if !slices.Contains(fieldNames, name.(string)) {
			p.repaired(RepairExtraField)
			if d.Decode(&skipped{}) != nil {
				return false
			}
			continue
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
		p.fields[name.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// fieldNames are the fields of all commands. Others are read past, however many an input has.
var fieldNames = []string{
	"command", "path", "view_range", "file_text", "content", "text", "old_str", "new_str", "insert_line", "insert_text",
	"old_path", "new_path",
}

// skipped is a JSON value that nobody wants.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// readAll reads the fields of a command and notes those that it does not have.
func (p *parser) readAll(fields ...field) *failure {
	known := map[string]bool{"command": true}
	for i := range fields {
		f := &fields[i]
		known[f.name] = true
		if p.present(f.name) {
			continue
		}
		if _, null := p.fields[f.name]; null {
			p.repaired(RepairNullField)
		}
		for _, alias := range f.aliases {
			if isString(p.fields[alias]) {
				p.repaired(RepairAlias)
				known[alias] = true
				f.name = alias
				break
			}
		}
	}
	for name := range p.fields {
		if !known[name] {
			p.repaired(RepairExtraField)
		}
	}
	return p.read(fields...)
}

// read reads fields: all that are required for presence first, then all for type.
func (p *parser) read(fields ...field) *failure {
	for _, f := range fields {
		if !f.optional && !p.present(f.name) {
			return fail(ReasonMissingParameter, "Error: Missing required parameter: %s", f.name)
		}
	}
	for _, f := range fields {
		if !p.present(f.name) {
			continue
		}
		raw, ok, want := p.fields[f.name], false, ""
		switch {
		case f.text != nil:
			want = "a string"
			ok = isString(raw) && json.Unmarshal(raw, f.text) == nil
		case f.number != nil:
			want = "an integer"
			*f.number, ok = p.integer(raw)
		case f.span != nil:
			want = "an array of two integers"
			*f.span, ok = p.viewRange(raw)
		}
		if !ok {
			return fail(ReasonInvalidParameterType, "Error: Invalid type for parameter: %s must be %s", f.name, want)
		}
	}
	return nil
}

// viewRange reads a view_range; nil is the whole.
func (p *parser) viewRange(raw json.RawMessage) (*Range, bool) {
	if isString(raw) {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, false
		}
		p.repaired(RepairStringRange)
		if text == "" {
			return nil, true
		}
		raw = json.RawMessage(strings.Trim(text, jsonBlanks))
		if string(raw) == "null" {
			return nil, true
		}
	}
	members, ok := firstMembers(raw, 3)
	if !ok {
		return nil, false
	}
	if len(members) != 2 {
		p.repaired(RepairRangeLength)
		return nil, true
	}
	start, ok := p.integer(members[0])
	if !ok {
		return nil, false
	}
	end, ok := p.integer(members[1])
	return &Range{start, end}, ok
}

// firstMembers returns at most n members of a JSON array: an array may have millions.
func firstMembers(raw json.RawMessage, n int) (members []json.RawMessage, ok bool) {
	if !bytes.HasPrefix(raw, []byte{'['}) || !json.Valid(raw) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	for d.More() && len(members) < n {
		var member json.RawMessage
		if d.Decode(&member) != nil {
			return nil, false
		}
		members = append(members, member)
	}
	return members, true
}

// integer reads a whole number of 64 bits: as a JSON number without a fraction, or as a string of digits.
func (p *parser) integer(raw json.RawMessage) (int64, bool) {
	if isString(raw) {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return 0, false
		}
		n, ok := parseDigits(strings.Trim(text, jsonBlanks))
		if ok {
			p.repaired(RepairStringNumber)
		}
		return n, ok
	}
	if n, ok := parseDigits(string(raw)); ok {
		return n, true
	}
	n, ok := parseWholeFloat(string(raw))
	if ok {
		p.repaired(RepairFloatNumber)
	}
	return n, ok
}

func (p *parser) present(name string) bool {
	raw, ok := p.fields[name]
	return ok && string(raw) != "null"
}

func (p *parser) repaired(r Repair) {
	if !slices.Contains(p.repairs, r) {
		p.repairs = append(p.repairs, r)
	}
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
