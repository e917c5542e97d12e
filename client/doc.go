// Package client talks to memoryd. It is thin: gRPC, protobuf and the generated messages are all that it needs.
//
// An agent needs three lines: Dial, Client.Handler, and Handler.HandleToolUse for every tool_use block of the memory
// tool. The handler never fails and never panics: whatever happens to the service is a text that the model can act on,
// and a service that is away is never mistaken for an empty memory.
//
// Programs that are not agents use the methods of Client, which take and return the generated messages. Their errors
// are the gRPC statuses that came back, untouched; see Reason and IsUnreachable.
//
// A Client and its handlers are safe for concurrent use.
package client
