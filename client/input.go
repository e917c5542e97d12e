package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

const (
	memoryRoot   = "/memories"
	maxPathBytes = 1024 // the service refuses longer ones
)

var errNotObject = errors.New("not a JSON object")

// inputFacts is what the client has to know of an input where the service did not answer. The service alone judges
// inputs, so whatever cannot be read here is no error.
type inputFacts struct {
	command string // "" where there is none
	path    string // the one to look at after a lost write; memoryRoot where there is none
}

// view tells whether the input surely is a view, which changes nothing.
func (f inputFacts) view() bool { return f.command == "view" }

// readInput reads an input as the service does: the whole may be a JSON string that holds the object, and rename may
// have path for old_path.
func readInput(input []byte) inputFacts {
	if s, ok := jsonString(input); ok {
		input = []byte(s)
	}
	f := inputFacts{path: memoryRoot}
	m, err := members(input)
	if err != nil {
		return f
	}
	f.command, _ = jsonString(m["command"])
	path := m["path"]
	if old := m["old_path"]; f.command == "rename" && len(old) > 0 && string(old) != "null" {
		path = old
	}
	if s, ok := jsonString(path); ok && s != "" && len(s) <= maxPathBytes {
		f.path = s
	}
	return f
}

// members splits a JSON object into its members: names are case-sensitive and the last of equal ones wins, as the
// service has it. It reads tokens because json.Unmarshal refuses what is nested more than 10,000 levels deep, and
// because the values stay byte for byte what they were.
func members(data []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a number outside float64 is no error here
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errNotObject
	}
	m := make(map[string]json.RawMessage)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		start := d.InputOffset()
		if err := skipValue(d); err != nil {
			return nil, err
		}
		m[name.(string)] = bytes.TrimLeft(data[start:d.InputOffset()], ": \t\r\n")
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return m, nil
}

func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// jsonString returns the string that data is as JSON.
func jsonString(data []byte) (s string, ok bool) {
	if data = bytes.TrimLeft(data, " \t\r\n"); len(data) == 0 || data[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(data, &s)
	return s, err == nil
}
