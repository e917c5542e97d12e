// Package transcript keeps the record of an agent run: what was sent to the Messages API, what came back, and what the
// API itself counted. `memory-agent run --transcript` writes one, `memory-agent simulate --transcript` plays it again
// under other settings of context editing.
//
// A transcript is JSON Lines. The first line has what is the same for the whole run:
//
//	{"type":"header","version":1,"model":"...","system":[...],"tools":[...]}
//
// Every other line is one call of the API: the messages that were not there in the call before, and the response as it
// came, with its usage:
//
//	{"type":"call","messages":[...],"response":{...}}
//
// The answer of a call is part of the conversation of the next and is not written again. Where the conversation was
// replaced, as a compaction does, "reset" is true and messages are the whole of it. Fields that a reader does not know
// are ignored.
//
// A transcript holds all that the model read and wrote. Who may not see the one must not see the other.
package transcript

// Version is the version of the format that Writer writes and Read reads.
const Version = 1

// The types of lines.
const (
	typeHeader = "header"
	typeCall   = "call"
)
