// Package agentkit is the memory tool over many sessions: how an agent's work is carried from one conversation to the
// next, and how a conversation is kept small.
//
// # Sessions
//
// The pattern is that of the tool's documentation ("Multisession software development pattern",
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool). The first session lays down memory files
// before the real work: a progress log, a checklist of features, a reference to the start-up script. Every later
// session begins by reading them instead of exploring again, and brings the progress log up to date before it ends.
//
//	project := agentkit.New(c, "acme/shop")
//	created, err := project.Initialize(ctx, plan) // does nothing from the second time on
//	session, err := project.Resume(ctx, "run-7")
//	// session.Context goes into the system prompt, PromptSessions before it;
//	// session.Handler() executes the calls of the memory tool.
//	last, err := runner.RunToCompletion(ctx)
//	err = session.Close(ctx, agentkit.OutcomeOf(last, err))
//
// A session is one conversation, and its name stands for that. A process that carries on with a conversation resumes it
// under its name and gets the same Context, byte for byte, which is what prompt caching needs; where the conversation
// is lost, a new session begins under a new name.
//
// # Interruption
//
// Any process may end between any two calls. Resume leaves a record of the session, which Close removes. The next
// session that begins and finds such a record writes into the progress log that the session was not closed, and which
// memory files have changed since it began, in the transaction in which it begins itself. A session that still runs
// then, beside the new one, is recorded in the same way; its Close nevertheless adds what it did. So each session has
// at most one entry by Close and one that it was not closed, whatever runs at the same time, and none is lost. Only
// where several processes have resumed one session, each of them adds its outcome, unless another had the same.
//
// The model may do with its files what it likes. Entries go to the top of the progress log, which needs no agreement
// with what is in it. A log that was deleted or renamed is made anew. What cannot take an entry, because it is a
// directory, not text, or as large as a file may be, is moved aside to progress-1.md, or the next free number; where a
// directory has too much in it for that, the entry goes there instead. Entries of this package that are too large for a
// file of the namespace name no files, and where even that is too much, open sessions stay on record for later.
//
// The records are files below RecordsDir. Listings do not show them, but count them in the size of /memories. They have
// a copy of what Context shows, until the session is closed or the next one begins. The model can write them like any
// other file, so nothing in them counts for more than memory does: what they show is framed and cut again each time,
// and one that is deleted or spoiled only makes less known of its session. So does a directory in the place of one.
//
// Resume reads the listing and each file in a call of its own. What is written at the same time, by another session,
// may be in one of them and not yet in another.
//
// # Memory is data
//
// What is in memory was written by a model, maybe about pages and documents of strangers. Context says that it is data
// and no instructions, and puts each file between tags whose name, byte for byte and in upper or lower case, occurs
// nowhere in any file or path that is shown: project_memory, or else project_memory_2 and so on. So no file can end
// its own block, or look like another one. That is a frame and no guarantee about what a model does.
//
// # Keeping the conversation small
//
// ManageContext sets up what the API offers beside memory:
//
//   - Compact and CompactOnDemand summarize the whole conversation. Make compaction the main strategy, and keep in
//     memory what must survive it: a summary loses details, a file does not.
//   - ClearToolUses removes single results of tools, the oldest first. Use it where results dominate the prompt, such
//     as those of searches, and are of no use once they have been read. It goes together with either way of compaction.
//
// Begin with a low trigger, such as 30,000 input tokens, and watch applied_edits in the responses and the token counts:
// a trigger is too low if results are fetched again that were just cleared. Each clearing ends the cached prefix of the
// prompt at its place; with prompt caching, set ClearAtLeast so that it is worth that. The warning is what makes it
// safe: when the prompt comes near the trigger, and the memory tool is among the tools, the API tells the model that
// results are going to be cleared, and the model saves what it needs to memory first. That is why the uses of the
// memory tool itself are not cleared unless ClearMemory is set.
package agentkit
