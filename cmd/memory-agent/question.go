package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// reasonInvalidNamespace is the reason of the service for a namespace whose name cannot be.
const reasonInvalidNamespace = "INVALID_NAMESPACE"

// maxQuestionChars is how much of the question of a memory is printed.
const maxQuestionChars = 200

// readChecklist returns the checklist of a memory; it is empty where there is none, or a directory in its place.
func readChecklist(ctx context.Context, memory *client.Client, namespace string) (string, error) {
	var text strings.Builder
	_, err := memory.Get(ctx, &memoryv1.GetRequest{Namespace: namespace, Path: agentkit.FeaturesPath}, &text)
	switch {
	case client.Reason(err) == reasonInvalidNamespace:
		return "", usageErrorf("--namespace %q: want lower-case letters, digits, '.', '_' and '-', in one part or several "+
			"with '/' between them, such as lights or acme/user-42", namespace)
	case status.Code(err) == codes.InvalidArgument: // says Get of a directory; the model may put it right
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the checklist of the memory: %w", err)
	}
	return text.String(), nil
}

// agree refuses another question than that of the memory, and returns what the memory is about; it is empty where
// nobody knows. That stands in the checklist, which is empty where the memory is new. A checklist that does not say it,
// as the model may have written it anew, agrees with any question. Where none was given and there is a checklist, the
// question of o becomes empty: the model finds it in the memory.
func (o *runOptions) agree(features string) (about string, err error) {
	match := goalLine.FindStringSubmatch(features)
	if match == nil {
		switch {
		case o.questionGiven:
		case features != "":
			o.question = ""
		case o.docs != "":
			return "", usageErrorf("--docs without --question: say what to find out from the documents")
		}
		return o.question, nil
	}
	goal := strings.TrimSpace(match[1])
	switch {
	case goal != o.question && (o.questionGiven || o.itemsGiven):
		return "", usageErrorf("the memory %q is about another question: %s. Leave out --question and --item to carry on "+
			"with it, with the same --docs, or give a new one its own --namespace (-n NAME)", o.namespace, quoted(goal))
	case goal != defaultQuestion && o.docs == "" && !o.questionGiven:
		return "", usageErrorf("the memory %q is about a question of its own: %s. Give the --docs that it is about; if "+
			"those are the documents that are built in, give the --question again", o.namespace, quoted(goal))
	case !o.questionGiven:
		o.question = ""
	}
	return goal, nil
}

// quoted shows a question of a memory: data, which may be long and have any characters.
func quoted(question string) string { return strconv.Quote(short(question, maxQuestionChars)) }

// hasItems tells whether a checklist has all items that were given. Blanks do not count: agentkit folds them.
func (o *runOptions) hasItems(features string) bool {
	for _, want := range o.items {
		if !slices.ContainsFunc(checklist(features), func(it item) bool { return folded(it.text) == folded(want) }) {
			return false
		}
	}
	return true
}

func folded(text string) string { return strings.Join(strings.Fields(text), " ") }
