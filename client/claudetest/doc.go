// Package claudetest is a Claude API for tests. It needs no network and no key: it is a Messages API on a loopback
// port, with a script, or a function, in the place of the model.
//
//	func TestAgent(t *testing.T) {
//		api := claudetest.New(t, claudetest.Script(
//			claudetest.Use(claudetest.Call("memory", map[string]any{"command": "view", "path": "/memories"})),
//			claudetest.Say("I remember nothing yet."),
//		))
//		client := api.Client() // or anthropic.NewClient(append(api.ClientOptions(), ...)...)
//		// run the agent under test with the client, then look at api.Requests()
//	}
//
// Everything around the model is played as the API does it: messages, streams, token counts, context editing,
// compaction, message threads, errors. Any client can be pointed at API.URL; POST /v1/messages and POST
// /v1/messages/count_tokens are there. There is no clock and no randomness: the same requests get the same answers, and
// ids are counted.
//
// A model that is a function looks back with Request.Calls, which pairs every tool call with its result.
//
// # Ids come again
//
// Every API counts its ids from 1, in every process: without WithIDPrefix the first tool call is toolu_1 each time. The
// real API never gives an id twice, and what executes a call only once relies on that. So does memoryd: to a
// client.Handler a call with the id of an earlier one, in the same session and namespace, is that one sent again. It
// changes nothing and gets the result of the earlier one; if it is another command, it gets the error that the id was
// already used.
//
// So where several APIs work on one memory, such as those of processes that follow each other, give each a prefix, or a
// session, of its own:
//
//	api, err := claudetest.Start(model, claudetest.WithIDPrefix(rand.Text())) // of crypto/rand
//	handler := memory.Handler(namespace, client.WithSession("run-7"))
//
// # Validity
//
// A request that the API would not take is answered with a 400 that names the place and the rule, such as "messages.1:
// `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1". Checked are: what is required,
// and the types of what the API reads; that the body is UTF-8, its escapes of surrogates in pairs; roles, and which
// blocks they may have; content that is empty, and white space at the end of a last message of the assistant's; that
// every tool call has its result in the next message and every result its call in the one before, the results first,
// what is in them, and that errors are text; that ids of calls and names of tools are unique; that a tool has a schema
// of an object, or a type of the form that the API's own have, and then no schema or description; the name of the
// memory tool; that a tool_choice has a tool; the source of an image; the bounds of temperature, max_tokens and
// budget_tokens; the number of cache breakpoints; the beta headers of context management, compaction, message threads
// and changes of tools; what may not be combined; the headers x-api-key or authorization, and anthropic-version; the
// size.
//
// Not checked are: members that the package does not know, which are ignored, and values of the headers; what a model
// can do, such as its most max_tokens, whether it thinks, takes a temperature or goes on from a message of the
// assistant's; schemas of tools beyond their type, and inputs of calls against them; the types of the API's own tools
// to the letter, but for the memory tool's, and their names and other members; signatures, order and completeness of
// thinking; what is in an image; documents, search results, citations and the blocks of server tools; where a system
// message may stand; cache_control beyond the number; top_p, top_k, metadata and service_tier.
//
// A call in the conversation may name a tool that is not among the tools: it may be gone, or the model made it up, as
// CallUnknown does on purpose.
//
// # Where it differs from the API
//
// What the API does is taken from its documentation and the SDK. Where they do not say, the plainest was chosen:
//
//   - Tokens are estimated: see EstimateTokens and WithTokenCounter. What counts are the texts of the system prompt and
//     the messages, the names and inputs of tool calls, tool definitions and unknown blocks as JSON, and a fixed number
//     for an image. The system prompt of the tools, which the API adds, counts nothing. Nothing is ever cached.
//   - max_tokens of 0, which only fills the prompt cache, is not taken.
//   - Error texts are in the manner of the API's, not the same to the letter.
//   - Nothing limits the model: max_tokens, stop_sequences, tool_choice and the schemas of tools are not held against
//     what it says. Server tools, MCP servers and documents are not played: their blocks are carried along.
//   - A trigger of clear_tool_uses_20250919 must be exceeded, that of compact_20260112 reached. What counts is the size
//     of the prompt before the edit. The edit is worked out anew for every request.
//   - Tools in exclude_tools count for a trigger of tool uses, but not as one of the uses that are kept. Results in the
//     last message are cleared too if they are more than are kept. ClearedText stands in the place of a cleared result,
//     and {} in that of a cleared input.
//   - A result is cleared even if ClearedText is longer, and then the prompt grows; clear_at_least is what prevents it.
//   - clear_thinking_20251015 takes every assistant message for a turn. Without it all thinking is kept.
//   - The warning before clearing, WarningText, is a block at the end of the last user message. It is there in every
//     request whose prompt, before edits, has reached WithWarnAt of the trigger.
//   - A summary stands for the whole conversation before it, the last message included. Its signature tells no more
//     than that it was not changed; encrypted_content is null.
//   - A thread is kept until API.ForgetThreads or Close. Which requests threads do not support is not documented in
//     full, so all are taken, unless WithoutThreads or ThreadUnsupported says otherwise.
//   - Which turns were paused is known by their blocks: only their calls may go back without results, and only their
//     texts may end in white space at the end of a last message.
//   - The text of a tool result may be white space only, as a string and as a block.
//   - Of the changes to tools in the middle of a conversation, additions by definition and removals by name are played.
package claudetest
