package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML returns the one document of a file. The tree is read by hand instead of into structs, so that an error
// names the line and the key, and never a value that may be secret.
func parseYAML(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one document")
	}
	return resolve(document.Content[0]), nil
}

// resolve returns what an alias stands for.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// mapping returns the values of a mapping that has none but the given keys.
func mapping(node *yaml.Node, keys ...string) (map[string]*yaml.Node, error) {
	if node.Kind != yaml.MappingNode {
		return nil, lineError(node, "here must be the keys %s", strings.Join(keys, ", "))
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		switch {
		case !slices.Contains(keys, key.Value):
			return nil, lineError(key, "unknown key %q; the keys are %s", key.Value, strings.Join(keys, ", "))
		case fields[key.Value] != nil:
			return nil, lineError(key, "key %q is there twice", key.Value)
		}
		fields[key.Value] = resolve(node.Content[i+1])
	}
	return fields, nil
}

// sequence returns the values of a list, none where its key is missing.
func sequence(node *yaml.Node, key string) ([]*yaml.Node, error) {
	if node == nil {
		return nil, nil
	}
	if node.Kind != yaml.SequenceNode {
		return nil, lineError(node, "%s is no list", key)
	}
	values := make([]*yaml.Node, len(node.Content))
	for i, value := range node.Content {
		values[i] = resolve(value)
	}
	return values, nil
}

// scalar returns a text. A number or a truth value is none, so that 0123 and yes mean what they seem to.
func scalar(node *yaml.Node, key string) (string, error) {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
		return "", lineError(node, "a value of %s is no text; write it in quotes", key)
	}
	return node.Value, nil
}

func lineError(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %w", node.Line, fmt.Errorf(format, args...))
}
