// Package simulation tells what context editing (clear_tool_uses_20250919) does to the number of tokens of a long run:
// it plays the run against a fake API (package claudetest) under a grid of settings, and counts.
//
// A run is either generated or recorded. The generated one is web research: a task of a hundred steps, each a search or
// a page, some of which need what an earlier result said. See Generator for the sizes and distances and where they come
// from, and model for the rules that stand in the place of Claude. They were chosen to be plausible, before any result
// was seen. A recorded one is a transcript (package transcript), played again with the sizes that the API counted.
//
// Nothing here is a language model or a tokenizer. The result is a statement about numbers of tokens; the quality of
// answers is not part of it.
//
// The memory of the generated run is one file of notes in this process, no memoryd: what a memory does for a run lies
// in what the model writes down, and when, not in where it is kept.
package simulation
