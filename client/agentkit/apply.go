package agentkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxAttempts is how often commands are planned anew because something else changed what they are about. Every such
// failure means that another session got on, so it takes as many sessions at the same time to get there.
const maxAttempts = 100

// create makes a file that must not be there, whatever the namespace lets create do.
func create(path, text string) *memoryv1.ApplyCommand {
	return &memoryv1.ApplyCommand{
		Input:      input(map[string]any{"command": "create", "path": path, "file_text": text}),
		IfRevision: new(int64(0)),
	}
}

// prepend puts lines at the top of a file.
func prepend(path, text string) *memoryv1.ApplyCommand {
	return &memoryv1.ApplyCommand{
		Input: input(map[string]any{"command": "insert", "path": path, "insert_line": 0, "insert_text": text}),
	}
}

// remove deletes a file that has not changed since a revision.
func remove(path string, revision int64) *memoryv1.ApplyCommand {
	return &memoryv1.ApplyCommand{
		Input:      input(map[string]any{"command": "delete", "path": path}),
		IfRevision: &revision,
	}
}

// aside moves what is at a path out of the way, to the next free number. Revision is that of a file; 0 for a directory,
// which is moved whatever is in it by then.
func (p *Project) aside(ctx context.Context, taken string, revision int64) (*memoryv1.ApplyCommand, error) {
	to, err := p.unusedPath(ctx, taken)
	if err != nil {
		return nil, err
	}
	command := &memoryv1.ApplyCommand{
		Input: input(map[string]any{"command": "rename", "old_path": taken, "new_path": to}),
	}
	if revision != 0 {
		command.IfRevision = &revision
	}
	return command, nil
}

// unusedPath returns a path like one that is taken, with a number: progress-1.md.
func (p *Project) unusedPath(ctx context.Context, taken string) (string, error) {
	ext := path.Ext(strings.TrimLeft(path.Base(taken), ".")) // the dot of a hidden name begins none
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s-%d%s", strings.TrimSuffix(taken, ext), n, ext)
		if found, _, err := p.stat(ctx, to); err != nil || found == missing {
			return to, err
		}
	}
}

func input(fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return string(text)
}

// apply runs commands in one transaction. Without a request id it is a call of its own. Its error is a *refusal where a
// command failed.
func (p *Project) apply(
	ctx context.Context, session, requestID string, commands []*memoryv1.ApplyCommand,
) (*memoryv1.ApplyResponse, error) {
	resp, err := p.client.Apply(ctx, &memoryv1.ApplyRequest{
		Namespace: p.namespace,
		RequestId: requestID,
		Session:   session,
		Commands:  commands,
	})
	if err != nil {
		return nil, err
	}
	return resp, refusalOf(resp.GetResult())
}

// commit plans commands and applies them, and does so again where what they are about has changed in between, or the
// log wants other entries. A plan without commands ends it.
func (p *Project) commit(
	ctx context.Context, session, requestID string, log *progressLog,
	plan func() ([]*memoryv1.ApplyCommand, error),
) (*memoryv1.ApplyResponse, error) {
	var last error
	for range maxAttempts {
		commands, err := plan()
		if err != nil || len(commands) == 0 {
			return nil, err
		}
		resp, err := p.apply(ctx, session, requestID, commands)
		if err == nil || !log.again(err) {
			return resp, err
		}
		last = err
	}
	return nil, fmt.Errorf("the memory changed too often meanwhile: %w", last)
}

// refusal is the error of a command that changed nothing because of what was asked for.
type refusal struct {
	reason memoryv1.Reason
	text   string
}

// Error implements error with what a model would read.
func (r *refusal) Error() string { return r.text }

// refusalOf returns the error of a result, nil for a success.
func refusalOf(result *memoryv1.ToolResult) error {
	if !result.GetIsError() {
		return nil
	}
	return &refusal{result.GetReason(), resultText(result)}
}

// resultText returns the texts of a result, one under the other.
func resultText(result *memoryv1.ToolResult) string {
	var texts []string
	for _, c := range result.GetContent() {
		if c.GetImage() == nil {
			texts = append(texts, c.GetText())
		}
	}
	return strings.Join(texts, "\n")
}

func hasReason(err error, reason memoryv1.Reason) bool {
	var r *refusal
	return errors.As(err, &r) && r.reason == reason
}

// exists tells whether a file could not be made because something is there.
func (r *refusal) exists() bool {
	return r.reason == memoryv1.Reason_REASON_CREATE_PATH_EXISTS ||
		r.reason == memoryv1.Reason_REASON_PRECONDITION_FAILED
}

// overtaken tells whether what the commands were planned for has changed since.
func (r *refusal) overtaken() bool {
	switch r.reason {
	case memoryv1.Reason_REASON_INSERT_PATH_NOT_FOUND,
		memoryv1.Reason_REASON_DELETE_PATH_NOT_FOUND,
		memoryv1.Reason_REASON_RENAME_PATH_NOT_FOUND,
		memoryv1.Reason_REASON_RENAME_DESTINATION_EXISTS,
		memoryv1.Reason_REASON_PARENT_IS_FILE:
		return true
	default:
		return r.exists()
	}
}

// unfit tells whether a file cannot take one more entry.
func (r *refusal) unfit() bool {
	return r.reason == memoryv1.Reason_REASON_NOT_UTF8 || r.reason == memoryv1.Reason_REASON_FILE_TOO_LARGE
}

// unmovable tells whether a directory cannot be moved because of what is below it.
func (r *refusal) unmovable() bool {
	return r.reason == memoryv1.Reason_REASON_DIRECTORY_TOO_LARGE || r.reason == memoryv1.Reason_REASON_PATH_TOO_LONG
}
