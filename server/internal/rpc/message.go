package rpc

import (
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Subject is what a request is about. A field that its message does not have is empty.
type Subject struct {
	Namespace string
	Session   string
	RequestID string
}

// SubjectOf checks the name of the namespace of a request, and returns what the request is about. A stream is known by
// its first message. Its error is a status.
func SubjectOf(req any) (Subject, error) {
	if put, ok := req.(*memoryv1.PutRequest); ok {
		if put.GetHeader() == nil {
			return Subject{}, StatusError(errNoHeader)
		}
		req = put.GetHeader()
	}
	r, ok := req.(namespaced)
	if !ok {
		return Subject{}, nil
	}
	s := Subject{Namespace: r.GetNamespace()}
	if r, ok := req.(recorded); ok {
		s.Session, s.RequestID = r.GetSession(), r.GetRequestId()
	}
	if err := memory.ValidateNamespace(s.Namespace); err != nil {
		return s, StatusError(err)
	}
	return s, nil
}

// Writes tells whether a request to Execute or Apply asks for a change. An input that holds no command asks for none.
func Writes(req any) bool {
	switch req := req.(type) {
	case *memoryv1.ExecuteRequest:
		cmd, _, _ := memory.Parse(req.GetInput())
		return cmd != nil && cmd.Writes()
	case *memoryv1.ApplyRequest:
		return firstWrite(req) != nil
	default:
		return true
	}
}

// firstWrite returns the first command of a batch that asks for a change, nil where none does.
func firstWrite(req *memoryv1.ApplyRequest) memory.Command {
	for _, c := range req.GetCommands()[:min(len(req.GetCommands()), memory.MaxBatchCommands)] {
		if cmd, _, _ := memory.Parse(c.GetInput()); cmd != nil && cmd.Writes() {
			return cmd
		}
	}
	return nil
}

// Asked is what the audit trail says of a request that was refused before it came here: what it asked for, as far as
// its message says it. A batch is known by its first command that asks for a change.
func Asked(req any) audit.Event {
	if put, ok := req.(*memoryv1.PutRequest); ok {
		req = put.GetHeader()
	}
	switch req := req.(type) {
	case *memoryv1.ExecuteRequest:
		if cmd, _, _ := memory.Parse(req.GetInput()); cmd != nil {
			return commandEvent(cmd)
		}
	case *memoryv1.ApplyRequest:
		if cmd := firstWrite(req); cmd != nil {
			return commandEvent(cmd)
		}
	case *memoryv1.UpdateNamespaceRequest:
		return audit.Event{Settings: askedSettings(req)}
	case interface{ GetPath() string }:
		return audit.Event{Path: req.GetPath()}
	case interface {
		GetOldPath() string
		GetNewPath() string
	}:
		return audit.Event{Path: req.GetOldPath(), NewPath: req.GetNewPath()}
	}
	return audit.Event{}
}
