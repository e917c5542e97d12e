package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxIDBytes is the most bytes that the service takes as a request id or a session.
const maxIDBytes = 128

// Handler executes the memory tool for an agent in one namespace. It is made by Client.Handler and is safe for
// concurrent use.
type Handler struct {
	client    *Client
	namespace string
	session   string // as it was given
	recorded  string // the session as the service takes it
	onError   func(error)
	guard     *guard // nil without GuardStaleEdits
}

// HandlerOption is an option of Client.Handler.
type HandlerOption func(*Handler)

// WithSession names the agent run, for the record and for the request ids of tool calls (see HandleCall). A name of
// more than 128 bytes is recorded as "sha256:" and its SHA-256 in hexadecimal; what is not valid UTF-8 in a shorter
// one, as U+FFFD.
func WithSession(session string) HandlerOption {
	return func(h *Handler) { h.session, h.recorded = session, recordedSession(session) }
}

func recordedSession(session string) string {
	if valid := validUTF8(session); len(valid) <= maxIDBytes {
		return valid
	}
	return digest(session)
}

// WithErrorFunc gives the error of every call that failed to a function, for the log: the model is told only that there
// is a problem. Where the service has answered, the text of the error ends with the id by which its log has the call;
// see RequestID. The function may be called by several goroutines at once.
func WithErrorFunc(fn func(err error)) HandlerOption {
	return func(h *Handler) { h.onError = fn }
}

// GuardStaleEdits keeps the model from changing what it has not seen. The handler remembers the text of every file that
// it showed, be it a part of it, or wrote. A create over such a file, an insert and a delete are then refused by the
// service if the file was changed by someone else since, with a result that tells the model to view it again. A
// str_replace whose old_str is still there once goes through, with a note beside the result. Files that were never
// viewed, and directories, are not guarded. 1,000 files are remembered, in memory only, so handlers are to be kept for
// as long as the conversation lasts.
func GuardStaleEdits() HandlerOption {
	return func(h *Handler) { h.guard = newGuard() }
}

// Handler returns a handler of the memory tool for a namespace; empty is DefaultNamespace.
func (c *Client) Handler(namespace string, opts ...HandlerOption) *Handler {
	h := &Handler{client: c, namespace: namespace, onError: func(error) {}}
	for _, opt := range opts {
		opt(h)
	}
	return h
}

// Handle executes the input of a tool_use block, as the model sent it. Whatever is wrong with the input or the service
// is in the result.
func (h *Handler) Handle(ctx context.Context, input json.RawMessage) Result {
	return h.execute(ctx, input, h.client.newID())
}

// HandleToolUse executes a tool_use block and returns the tool_result block that answers it; see MarshalToolResult.
// The name of the block does not matter, so that the tool can have any. The only error is that of something that is
// not a tool_use block with an id.
//
// A block that is handled again, even by another process, is the same request; see HandleCall.
func (h *Handler) HandleToolUse(ctx context.Context, block json.RawMessage) (json.RawMessage, error) {
	id, input, err := parseToolUse(block)
	if err != nil {
		return nil, fmt.Errorf("read tool_use block: %w", err)
	}
	return MarshalToolResult(id, h.HandleCall(ctx, id, input)), nil
}

// HandleCall executes a tool call, given the id and the input of its tool_use block, for programs that have the block
// parsed. An empty id is that of no block, and is handled as by Handle.
//
// The request id is made of the session and the id of the block, so that a call that is handled again, even by another
// process, is the same request: "session/id", or "id" without a session. Where that would be longer than 128 bytes or
// is not valid UTF-8, or the id has a "/", it is the SHA-256 of both. So without a session the ids must be unique in
// the namespace, as those of the Messages API are.
//
// What the service remembers under a request id is a change that it made: handled again, the call has the same answer
// and changes nothing. A call that failed changed nothing and is not remembered. Handled again it is tried again, and
// succeeds if it can by now, be it because of a later call of the same turn. Nor is a view remembered.
func (h *Handler) HandleCall(ctx context.Context, toolUseID string, input json.RawMessage) Result {
	if toolUseID == "" {
		return h.Handle(ctx, input)
	}
	return h.execute(ctx, input, requestID(h.session, toolUseID))
}

// execute never panics: a panic, which an interceptor of the user's may cause, counts as a failure of the service.
func (h *Handler) execute(ctx context.Context, input []byte, requestID string) (result Result) {
	req := prepare(h.client, &memoryv1.ExecuteRequest{
		Namespace: h.namespace,
		RequestId: requestID,
		Session:   h.recorded,
		Input:     string(input),
	})
	h.guard.prepare(req)
	if proto.Size(req) > maxRequestBytes {
		// gRPC would refuse it as a failure of the call, which the model could only repeat. What makes an input so long
		// is a text for a file, and that cannot be stored under any setting: no file may have more than 8 MiB.
		text := fmt.Sprintf(textFileTooLarge, readInput(input).path, "8.0M")
		return errorResult(memoryv1.Reason_REASON_FILE_TOO_LARGE, text)
	}

	a := h.client.newAttempts(req)
	defer func() {
		if recover() == nil {
			return
		}
		if a.mayBeMade() {
			result = unknownResult(readInput(input))
		} else {
			result = errorResult(memoryv1.Reason_REASON_SERVICE_PROBLEM, textProblem)
		}
	}()
	resp, err := repeat(ctx, a, h.client.memory.Execute, req)
	if err == nil && len(resp.GetResult().GetContent()) == 0 {
		err = a.failed(ctx, status.Error(codes.Internal, "the response has no result")) // not memoryd
	}
	if err != nil {
		h.onError(err)
		return failedResult(err, readInput(input))
	}
	h.guard.learn(req, resp)
	r := resp.GetResult()
	return Result{IsError: r.GetIsError(), Reason: r.GetReason(), Content: r.GetContent()}
}

// parseToolUse returns the id and the input of a tool_use block. A missing input is an empty one, about which the
// service has a text.
func parseToolUse(block []byte) (id string, input json.RawMessage, err error) {
	m, err := members(block)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", nil, fmt.Errorf("parse JSON: %w", err)
	}
	kind, ok := jsonString(m["type"])
	if !ok {
		return "", nil, errors.New(`"type" is missing or not a string`)
	}
	if kind != "tool_use" {
		return "", nil, fmt.Errorf(`"type" is %q`, kind)
	}
	if id, _ = jsonString(m["id"]); id == "" {
		return "", nil, errors.New(`"id" is missing, empty or not a string`)
	}
	return id, m["input"], nil
}

// requestID names the request of a tool_use block; see HandleCall. Different pairs have different names: the id is
// what follows the last "/". Bytes that are not valid UTF-8 would all be U+FFFD to the service.
func requestID(session, toolUseID string) string {
	id := toolUseID
	if session != "" {
		id = session + "/" + toolUseID
	}
	if len(id) > maxIDBytes || !utf8.ValidString(id) || strings.Contains(toolUseID, "/") {
		return digest(session + "\x00" + toolUseID)
	}
	return id
}

func digest(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }
