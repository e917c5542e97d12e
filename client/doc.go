// Package client talks to memoryd. It is thin: gRPC, protobuf and the generated messages are all that it needs.
//
// An agent needs three lines: Dial, Client.Handler, and Handler.HandleToolUse for every tool_use block of the memory
// tool. The handler never fails and never panics: whatever happens to the service is a text that the model can act on,
// and a service that is away is never mistaken for an empty memory.
//
// Programs that are not agents use the methods of Client, which take and return the generated messages. Their errors
// are gRPC statuses as they came back; see Reason, IsUnreachable and MayHaveBeenMade.
//
// # Repeated calls
//
// A call that got no answer, and one that the service could not take on (the code UNAVAILABLE, or RESOURCE_EXHAUSTED
// with a RetryInfo), is repeated. So a service that is restarted is a pause and not an error. That is safe for changes
// too: each carries a request id, the same in every attempt, and the service makes a change at most once under one id.
// The pauses are random, up to 50 milliseconds after the first failure and then up to twice as long each time, at most
// a second, or what the service asks for.
//
//   - Where nothing can have been changed, a call is repeated for the retry budget: see WithRetryBudget.
//   - Where the answer of a change was lost, it is repeated until the deadline, as only that tells what became of it.
//   - An attempt gets a third of the time that is left until the deadline, but at least 5 seconds.
//   - A context that is cancelled ends the call at once.
//
// If no attempt got an answer, MayHaveBeenMade tells whether the change may have been made, and so does the handler.
//
// # Credentials
//
// WithTLSFiles and WithTLS encrypt the connection, and show the service a certificate of the client where it wants one.
// WithTokenFile and WithToken send a bearer token, but never in plain text to another machine. Files are read again
// when they may have been renewed, so that a client can live on. Whom the service does not let in gets the code
// UNAUTHENTICATED or PERMISSION_DENIED, and the model reads that it has no access.
//
// A Client and its handlers are safe for concurrent use.
package client
