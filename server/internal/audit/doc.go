// Package audit keeps the audit trail: who did what to which memory, and who was turned away.
//
// The trail is a file, or standard output, with one JSON object a line. Every write, every denial and every act of
// administration has a line; reads that were allowed have none. The keys always come in this order, and those that have
// nothing to say are left out, but for the first, principal, method and outcome:
//
//	{"time":"2026-03-01T12:00:00.123456789Z", when the call ended, in UTC
//	 "principal":"agent-7",                   who called; "" for somebody unknown
//	 "credential":"token sha256:9f86d081884c", what they showed: of a token the beginning of its hash, else
//	                                          "certificate NAME", "jwt SUBJECT" or "uid NUMBER"
//	 "peer":"10.0.0.7:51814",                 from where
//	 "session":"run-12",                      what the caller says about itself
//	 "request_id":"toolu_01",                 under which the change happens once
//	 "x_request_id":"9b6c1f0d2a7e4c58",       by which the call is found again: the log has it, and the answer
//	 "method":"/memoryd.v1.MemoryService/Rename",
//	 "command":"rename",
//	 "namespace":"acme/user-42",
//	 "path":"/memories/a.md",
//	 "new_path":"/memories/b.md",
//	 "settings":{"max_files":"2","secrets":"default"}, of the namespace, as they were to be
//	 "outcome":"ok",                          or a reason such as "file_quota", or a code such as "PERMISSION_DENIED"
//	 "revision":17}                           of the namespace after the change
//
// UpdateNamespace has the settings that were to change, sorted by name; "default" is one that returns to the default of
// the service. They changed where the outcome is "ok".
//
// A file that nobody viewed for long enough and that the service removed by itself has the principal "memoryd", the
// command "expire" and the method "".
//
// A line holds names and never contents, secrets or tokens. Names that a caller gives can be anything, so that a line
// keeps only their beginning where they are too long, makes them valid UTF-8, and escapes what cannot be printed.
//
// A line is written at once and in one piece. It is in the hands of the operating system then: it outlives the process,
// but not the failure of the machine.
//
// An output that takes no line for a second, such as a pipe that nobody reads, is stuck. What it is to hold is queued
// then, up to 4,096 lines, and written in order when it goes on, but nobody waits for it.
package audit
