package agentkit

import "strings"

// Fragments for the system prompt. None of them is the memory protocol ("ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING
// ANYTHING ELSE"): the API adds that by itself to requests that have the memory tool.
const (
	// PromptUpkeep keeps the memory in order, for a model that creates clutter. It is the text of the public
	// documentation of the memory tool ("Prompting guidance",
	// https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool), byte for byte.
	PromptUpkeep = "Note: when editing your memory folder, always try to keep its content up-to-date, coherent and " +
		"organized. You can rename or delete files that are no longer relevant. Do not create new files unless necessary."

	// PromptTopic is what PromptOnTopic makes its text of, with <topic> for the topic. Its source is that of
	// PromptUpkeep.
	PromptTopic = "Only write down information relevant to <topic> in your memory system."

	// PromptSessions explains the session pattern to the model. It is this package's own text; the pattern is that of
	// the same documentation ("Multisession software development pattern"). It belongs before Session.Context.
	PromptSessions = "You work on this project in several sessions, and your memory is all that one session leaves to " +
		"the next. Begin with the memory that you are shown instead of exploring again: " + ProgressPath + " says what was " +
		"done and what comes next, " + FeaturesPath + " is the scope, and " + StartupPath + " says how the work is " +
		"started.\n" +
		"Work on one feature at a time. Mark a feature complete in " + FeaturesPath + " only after an end-to-end check has " +
		"shown that it works, not when it is written.\n" +
		"You may be interrupted at any moment, so record progress when it is made. Before you end, bring " + ProgressPath +
		" up to date: what was done, and what comes next. New entries go to the top."
)

// PromptOnTopic is PromptTopic for a topic, such as "the customer's orders".
func PromptOnTopic(topic string) string { return strings.ReplaceAll(PromptTopic, "<topic>", topic) }
