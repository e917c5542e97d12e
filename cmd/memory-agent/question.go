package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// reasonInvalidNamespace is the reason of the service for a namespace whose name cannot be.
const reasonInvalidNamespace = "INVALID_NAMESPACE"

// readChecklist returns the checklist of a memory; it is empty where there is none.
func readChecklist(ctx context.Context, memory *client.Client, namespace string) (string, error) {
	var text strings.Builder
	_, err := memory.Get(ctx, &memoryv1.GetRequest{Namespace: namespace, Path: agentkit.FeaturesPath}, &text)
	switch {
	case client.Reason(err) == reasonInvalidNamespace:
		return "", usageErrorf("--namespace %q: want lower-case letters, digits, '.', '_' and '-', in one part or several "+
			"with '/' between them, such as lights or acme/user-42", namespace)
	case err != nil:
		return "", fmt.Errorf("read the checklist of the memory: %w", err)
	}
	return text.String(), nil
}

// agree makes the question that of the memory, where that has one, and refuses another. What a memory is about stands
// in its checklist, which is empty where the memory is new. A checklist that does not say it, as the model may have
// written it anew, agrees with any question.
func (o *runOptions) agree(features string) error {
	match := goalLine.FindStringSubmatch(features)
	switch {
	case match == nil && o.docs != "" && !o.questionGiven:
		return usageErrorf("--docs without --question: say what to find out from the documents")
	case match == nil:
		return nil
	}
	goal := strings.TrimSpace(match[1])
	if goal != o.question && (o.questionGiven || o.itemsGiven) {
		return usageErrorf("the memory %q is about another question: %q. Leave out --question and --item to carry on with "+
			"it, or give a new one its own --namespace (-n NAME)", o.namespace, goal)
	}
	o.question = goal
	return nil
}

// hasItems tells whether a checklist has all items that were given.
func (o *runOptions) hasItems(features string) bool {
	for _, want := range o.items {
		if !slices.ContainsFunc(checklist(features), func(it item) bool { return it.text == want }) {
			return false
		}
	}
	return true
}
