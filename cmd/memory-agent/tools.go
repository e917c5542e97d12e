package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/toolrunner"
)

// The names of the tools.
const (
	toolMemory = "memory"
	toolList   = "list_documents"
	toolSearch = "search_documents"
	toolRead   = "read_document"
)

// Limits of what one call of a tool answers.
const (
	maxResultChars = 16000 // of the lines of a document; the memory tool has the same
	maxLineChars   = 2000
	maxListed      = 200
	maxHits        = 8
	maxHitLines    = 5
	maxHitChars    = 300
)

type searchInput struct {
	Query string `json:"query"`
}

type readInput struct {
	Name      string `json:"name"`
	FirstLine int    `json:"first_line,omitempty"`
}

// documentTools returns the tools that list, search and read the documents.
func documentTools(l *library) []anthropic.BetaTool {
	return []anthropic.BetaTool{
		toolrunner.NewBetaTool(toolList, "Lists the names and sizes of all documents.", inputSchema(map[string]any{}),
			func(context.Context, struct{}) (result, error) { return textResult(l.listText()) }),
		toolrunner.NewBetaTool(toolSearch, "Finds the documents that have the most of some words, with lines that have them.",
			inputSchema(map[string]any{
				"query": schema{"string", "The words to look for. Case and order do not matter."},
			}, "query"),
			func(ctx context.Context, in searchInput) (result, error) {
				return textResult(l.searchText(ctx, in.Query))
			}),
		toolrunner.NewBetaTool(toolRead, "Reads a document. Lines come with their numbers, and long documents in parts.",
			inputSchema(map[string]any{
				"name":       schema{"string", "The name of the document as list_documents and search_documents give it."},
				"first_line": schema{"integer", "The first line to read, counted from 1. The default is 1."},
			}, "name"),
			func(_ context.Context, in readInput) (result, error) { return textResult(l.readText(in)) }),
	}
}

// schema is the JSON schema of one property.
type schema struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

func inputSchema(properties map[string]any, required ...string) anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{Properties: properties, Required: required}
}

// result is a block of a tool's result. An error of a tool is for the model too: the runner marks it as one.
type result = anthropic.BetaToolResultBlockParamContentUnion

func textResult(text string, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return result{OfText: &anthropic.BetaTextBlockParam{Text: text}}, nil
}

func (l *library) listText() (string, error) {
	documents, more, err := l.list()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	switch {
	case len(documents) == 0:
		return "There are no documents.", nil
	case more:
		fmt.Fprintf(&b, "More than %d documents:", maxDocuments)
	default:
		fmt.Fprintf(&b, "%s:", count(len(documents), "document", "documents"))
	}
	for i, d := range documents {
		if i == maxListed {
			fmt.Fprintf(&b, "\nOnly the first %d are listed. Use %s to find the others.", maxListed, toolSearch)
			break
		}
		fmt.Fprintf(&b, "\n%s (%d bytes)", d.name, d.bytes)
	}
	return b.String(), nil
}

func (l *library) searchText(ctx context.Context, query string) (string, error) {
	words := wordsOf(query)
	if len(words) == 0 {
		return "", errors.New("the query has no words. Send some words that the documents may have")
	}
	hits, err := l.search(ctx, words)
	if err != nil {
		return "", err
	}
	if len(hits) == 0 {
		return fmt.Sprintf("No document has any of these words. Try others, or see %s.", toolList), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, the best first:", count(len(hits), "document", "documents"))
	for i, h := range hits {
		if i == maxHits {
			fmt.Fprintf(&b, "\nOnly the best %d are shown. More words find fewer.", maxHits)
			break
		}
		fmt.Fprintf(&b, "\n%s (%d of %s)", h.document, h.words, count(len(words), "word", "words"))
		for _, s := range h.best {
			fmt.Fprintf(&b, "\n  %d: %s", s.number, cut(s.text, maxHitChars))
		}
	}
	return b.String(), nil
}

func (l *library) readText(in readInput) (string, error) {
	lines, err := l.read(in.Name)
	if err != nil {
		return "", err
	}
	first := max(in.FirstLine, 1)
	if first > len(lines) {
		return "", fmt.Errorf("there is no line %d: the document has %d", first, len(lines))
	}
	var b strings.Builder
	chars, last := 0, first-1
	for _, s := range lines[first-1:] {
		text := fmt.Sprintf("\n%d: %s", last+1, cut(s, maxLineChars))
		if chars += utf8.RuneCountInString(text); chars > maxResultChars {
			break
		}
		b.WriteString(text)
		last++
	}
	head := fmt.Sprintf("%s, lines %d to %d of %d:", in.Name, first, last, len(lines))
	if last < len(lines) {
		fmt.Fprintf(&b, "\nThere is more: read on with first_line %d.", last+1)
	}
	return head + b.String(), nil
}

// cut shortens a line to most characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + " [the rest of this line is not shown]"
}
