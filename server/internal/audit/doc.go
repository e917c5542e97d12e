// Package audit keeps the audit trail: who did what to which memory, and who was turned away.
//
// The trail is a file, or standard output, with one JSON object a line. Every write, every denial and every act of
// administration has a line; reads that were allowed have none. The keys always come in this order, and those that have
// nothing to say are left out, but for the first, principal, method and outcome:
//
//	{"time":"2026-03-01T12:00:00.123456789Z", when the call ended, in UTC
//	 "principal":"agent-7",                   who called; "" for somebody unknown
//	 "peer":"10.0.0.7:51814",                 from where
//	 "session":"run-12",                      what the caller says about itself
//	 "request_id":"toolu_01",
//	 "method":"/memoryd.v1.MemoryService/Rename",
//	 "command":"rename",
//	 "namespace":"acme/user-42",
//	 "path":"/memories/a.md",
//	 "new_path":"/memories/b.md",
//	 "outcome":"ok",                          or a reason such as "file_quota", or a code such as "PERMISSION_DENIED"
//	 "revision":17}                           of the namespace after the change
//
// A line holds names and never contents, secrets or tokens. Names that a caller gives can be anything, so that a line
// keeps only their beginning where they are too long, makes them valid UTF-8, and escapes what cannot be printed.
//
// A line is written at once and in one piece. It is in the hands of the operating system then: it outlives the process,
// but not the failure of the machine.
package audit
