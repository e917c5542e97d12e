package rpc

import (
	"context"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// invalidCommand stands for the name of the command where Execute got none.
const invalidCommand = "invalid"

type memoryService struct {
	memoryv1.UnimplementedMemoryServiceServer
	executor
}

var _ memoryv1.MemoryServiceServer = (*memoryService)(nil)

// View implements memoryv1.MemoryServiceServer.
func (s *memoryService) View(ctx context.Context, req *memoryv1.ViewRequest) (*memoryv1.ViewResponse, error) {
	cmd := memory.View{Path: req.GetPath()}
	if r := req.GetViewRange(); r != nil {
		cmd.Range = &memory.Range{Start: r.GetStart(), End: r.GetEnd()}
	}
	res, err := s.do(ctx, req, cmd, conditions{})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.ViewResponse](res)
	resp.Result, resp.Revision, resp.Entry, resp.Entries = result, res.Revision, entry, toEntries(res.Entries)
	return resp, nil
}

// Create implements memoryv1.MemoryServiceServer.
func (s *memoryService) Create(ctx context.Context, req *memoryv1.CreateRequest) (*memoryv1.CreateResponse, error) {
	res, err := s.do(ctx, req, memory.Create{Path: req.GetPath(), FileText: req.GetFileText()},
		conditions{ifRevision: req.IfRevision, ifSHA256: req.IfSha256})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.CreateResponse](res)
	resp.Result, resp.Revision, resp.Entry = result, res.Revision, entry
	return resp, nil
}

// StrReplace implements memoryv1.MemoryServiceServer.
func (s *memoryService) StrReplace(ctx context.Context, req *memoryv1.StrReplaceRequest) (
	*memoryv1.StrReplaceResponse, error,
) {
	cmd := memory.StrReplace{Path: req.GetPath(), OldStr: req.GetOldStr(), NewStr: req.GetNewStr()}
	res, err := s.do(ctx, req, cmd, conditions{
		ifRevision: req.IfRevision, ifSHA256: req.IfSha256, viewedSHA256: req.ViewedSha256,
	})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.StrReplaceResponse](res)
	resp.Result, resp.Revision, resp.Entry = result, res.Revision, entry
	return resp, nil
}

// Insert implements memoryv1.MemoryServiceServer.
func (s *memoryService) Insert(ctx context.Context, req *memoryv1.InsertRequest) (*memoryv1.InsertResponse, error) {
	cmd := memory.Insert{Path: req.GetPath(), InsertLine: req.GetInsertLine(), InsertText: req.GetInsertText()}
	res, err := s.do(ctx, req, cmd, conditions{ifRevision: req.IfRevision, ifSHA256: req.IfSha256})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.InsertResponse](res)
	resp.Result, resp.Revision, resp.Entry = result, res.Revision, entry
	return resp, nil
}

// Delete implements memoryv1.MemoryServiceServer.
func (s *memoryService) Delete(ctx context.Context, req *memoryv1.DeleteRequest) (*memoryv1.DeleteResponse, error) {
	res, err := s.do(ctx, req, memory.Delete{Path: req.GetPath()},
		conditions{ifRevision: req.IfRevision, ifSHA256: req.IfSha256})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.DeleteResponse](res)
	resp.Result, resp.Revision, resp.Entry = result, res.Revision, entry
	return resp, nil
}

// Rename implements memoryv1.MemoryServiceServer.
func (s *memoryService) Rename(ctx context.Context, req *memoryv1.RenameRequest) (*memoryv1.RenameResponse, error) {
	res, err := s.do(ctx, req, memory.Rename{OldPath: req.GetOldPath(), NewPath: req.GetNewPath()},
		conditions{ifRevision: req.IfRevision, ifSHA256: req.IfSha256})
	if err != nil {
		return nil, err
	}
	resp, result, entry := newAnswer[memoryv1.RenameResponse](res)
	resp.Result, resp.Revision, resp.Entry = result, res.Revision, entry
	return resp, nil
}

// Execute implements memoryv1.MemoryServiceServer.
func (s *memoryService) Execute(ctx context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
	if err := checkRequest(req); err != nil { // Also where the input holds no command.
		return nil, StatusError(err)
	}
	cmd, res := s.parse(req.GetInput())
	if cmd == nil {
		return toExecuteResponse(res), nil
	}
	res, err := s.do(ctx, req, cmd, conditions{
		ifRevision: req.IfRevision, ifSHA256: req.IfSha256, viewedSHA256: req.ViewedSha256,
	})
	if err != nil {
		return nil, err
	}
	return toExecuteResponse(res), nil
}

// parse reads the input of a tool call and counts what was wrong with it.
func (s *memoryService) parse(input string) (memory.Command, memory.Result) {
	cmd, repairs, res := memory.Parse(input)
	for _, r := range repairs {
		s.recorder.Repaired(string(r))
	}
	if cmd == nil {
		s.recorder.Command(invalidCommand, ReasonLabel(memoryv1.Reason(res.Reason)))
	}
	return cmd, res
}

// Apply implements memoryv1.MemoryServiceServer.
func (s *memoryService) Apply(ctx context.Context, req *memoryv1.ApplyRequest) (*memoryv1.ApplyResponse, error) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	var commands []memory.BatchCommand
	for i, c := range req.GetCommands() {
		call, err := conditions{ifRevision: c.IfRevision, ifSHA256: c.IfSha256}.call("")
		if err != nil {
			return nil, StatusError(err)
		}
		if i >= memory.MaxBatchCommands { // Batch refuses them by their number.
			commands = append(commands, memory.BatchCommand{})
			continue
		}
		cmd, res := s.parse(c.GetInput())
		if cmd == nil {
			return &memoryv1.ApplyResponse{Result: toResult(res), FailedCommand: new(int32(i))}, nil
		}
		commands = append(commands, memory.BatchCommand{Command: cmd, Call: call})
	}
	batch, err := s.memory.Batch(ctx, req.GetNamespace(), commands, req.GetRequestId())
	auditBatch(ctx, commands, batch, err)
	if err != nil {
		return nil, StatusError(err)
	}
	s.recorder.Command("apply", ReasonLabel(memoryv1.Reason(batch.Failed.Reason)))
	resp := &memoryv1.ApplyResponse{Result: toResult(batch.Failed)}
	if batch.FailedIndex >= 0 {
		resp.FailedCommand = new(int32(batch.FailedIndex))
	}
	for _, res := range batch.Results {
		resp.Responses = append(resp.Responses, toExecuteResponse(res))
	}
	return resp, nil
}

// auditBatch tells the audit trail of the commands that were executed, or of the one for which none was.
func auditBatch(ctx context.Context, commands []memory.BatchCommand, batch memory.BatchResult, err error) {
	trail := audit.FromContext(ctx)
	for i, c := range commands {
		switch {
		case c.Command == nil || !c.Command.Writes():
		case err != nil:
			trail.Add(commandEvent(c.Command)) // the call says what became of it
		case batch.Results != nil:
			trail.Add(answeredEvent(c.Command, batch.Results[i]))
		case i == batch.FailedIndex:
			trail.Add(answeredEvent(c.Command, batch.Failed))
		}
	}
}

func toExecuteResponse(res memory.Result) *memoryv1.ExecuteResponse {
	resp, result, entry := newAnswer[memoryv1.ExecuteResponse](res)
	resp.Result, resp.Revision, resp.Entry, resp.Entries = result, res.Revision, entry, toEntries(res.Entries)
	return resp
}
