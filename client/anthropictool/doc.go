// Package anthropictool makes a memoryd namespace the memory tool of agents that use Claude's SDK for Go,
// github.com/anthropics/anthropic-sdk-go.
//
// With a tool runner it takes three lines:
//
//	memoryd, err := client.Dial("127.0.0.1:7711")
//	memory := memoryd.Handler("acme/support/user-42", client.WithSession("run-7"))
//	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil, params)
//
// NewToolRunner does three things that a runner on a message thread of one's own, or one that is wrapped, has to be
// given one by one: the definition of the tool (Params, ThreadParams), the tool (New) and its binding to the runner
// (Tool.Bind). All three are needed. Without the definition the runner tells the model of a custom tool that happens to
// be called memory. Without the binding the calls of a turn run in any order, and twice where a turn is run twice.
//
// A loop that is written by hand uses MessageParams or Params, and HandleMessage or HandleBetaMessage. The clients of
// the SDK for Amazon Bedrock and Google Vertex AI have the same types, and nothing is different with them. The memory
// tool needs no beta header.
//
// # What the model reads
//
// Results are the texts of memoryd, byte for byte, with one exception that is the runners' own: they put "Error: "
// before the text of an error. The texts that have it already lose it here, so that it is never there twice. Four have
// none, as the documentation of the memory tool prints them, and get one:
//
//   - The path {path} does not exist. Please provide a valid path.
//   - File {path} exceeds maximum line limit of 999,999 lines.
//   - No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.
//   - No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}. Please ensure it is
//     unique
//
// Loops that are written by hand have no exception.
//
// # After a failure
//
// A call is known by the session of the handler and the id of its tool_use block, and memoryd makes its change once,
// however often it is asked. So a turn whose results did not arrive can be run again, by another process too: keep what
// RawJSON of the message returns, unmarshal it into a message, and give that to HandleMessage or HandleBetaMessage.
//
// What is remembered across processes are the changes that were made. A call that failed changed nothing and is tried
// again, and a view is made again. So a call that failed may succeed the second time, where a later call of its turn
// has removed what it failed for: a create over a file that is there, say, before the delete of that file.
//
// A runner of the SDK cannot always go on after an error. Once the tools have run it has their results, and if the
// request that sends them fails, and the runner is called again, it runs the tools again and sends both, which the API
// refuses. And where its context ended while they ran, the results say that the service cannot be reached. So carry on
// with a new runner. Its messages are those of the old one (Messages) up to the last of the assistant and then, if that
// stopped for tool_use, a user message with what Results of the old runner's tool returns, and with the results of the
// other tools; the example of Tool.Results shows it. Within the process the tool also has the answers of the calls that
// failed. It has to be made with New for that, as NewToolRunner keeps its own to itself.
package anthropictool
