package rpc

import (
	"context"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
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
	res, err := s.do(ctx, req, cmd)
	if err != nil {
		return nil, err
	}
	return &memoryv1.ViewResponse{
		Result:   toResult(res),
		Revision: res.Revision,
		Entry:    toEntry(res.Entry),
		Entries:  toEntries(res.Entries),
	}, nil
}

// Create implements memoryv1.MemoryServiceServer.
func (s *memoryService) Create(ctx context.Context, req *memoryv1.CreateRequest) (*memoryv1.CreateResponse, error) {
	res, err := s.do(ctx, req, memory.Create{Path: req.GetPath(), FileText: req.GetFileText()})
	if err != nil {
		return nil, err
	}
	return &memoryv1.CreateResponse{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}, nil
}

// StrReplace implements memoryv1.MemoryServiceServer.
func (s *memoryService) StrReplace(ctx context.Context, req *memoryv1.StrReplaceRequest) (
	*memoryv1.StrReplaceResponse, error,
) {
	cmd := memory.StrReplace{Path: req.GetPath(), OldStr: req.GetOldStr(), NewStr: req.GetNewStr()}
	res, err := s.do(ctx, req, cmd)
	if err != nil {
		return nil, err
	}
	return &memoryv1.StrReplaceResponse{
		Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry),
	}, nil
}

// Insert implements memoryv1.MemoryServiceServer.
func (s *memoryService) Insert(ctx context.Context, req *memoryv1.InsertRequest) (*memoryv1.InsertResponse, error) {
	cmd := memory.Insert{Path: req.GetPath(), InsertLine: req.GetInsertLine(), InsertText: req.GetInsertText()}
	res, err := s.do(ctx, req, cmd)
	if err != nil {
		return nil, err
	}
	return &memoryv1.InsertResponse{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}, nil
}

// Delete implements memoryv1.MemoryServiceServer.
func (s *memoryService) Delete(ctx context.Context, req *memoryv1.DeleteRequest) (*memoryv1.DeleteResponse, error) {
	res, err := s.do(ctx, req, memory.Delete{Path: req.GetPath()})
	if err != nil {
		return nil, err
	}
	return &memoryv1.DeleteResponse{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}, nil
}

// Rename implements memoryv1.MemoryServiceServer.
func (s *memoryService) Rename(ctx context.Context, req *memoryv1.RenameRequest) (*memoryv1.RenameResponse, error) {
	res, err := s.do(ctx, req, memory.Rename{OldPath: req.GetOldPath(), NewPath: req.GetNewPath()})
	if err != nil {
		return nil, err
	}
	return &memoryv1.RenameResponse{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}, nil
}

// Execute implements memoryv1.MemoryServiceServer.
func (s *memoryService) Execute(ctx context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
	if err := checkRequest(req); err != nil { // Also where the input holds no command.
		return nil, StatusError(err)
	}
	cmd, repairs, res := memory.Parse(req.GetInput())
	for _, r := range repairs {
		s.recorder.Repaired(string(r))
	}
	if cmd == nil {
		s.recorder.Command(invalidCommand, ReasonLabel(memoryv1.Reason(res.Reason)))
		return &memoryv1.ExecuteResponse{Result: toResult(res)}, nil
	}
	res, err := s.do(ctx, req, cmd)
	if err != nil {
		return nil, err
	}
	return &memoryv1.ExecuteResponse{
		Result:   toResult(res),
		Revision: res.Revision,
		Entry:    toEntry(res.Entry),
		Entries:  toEntries(res.Entries),
	}, nil
}
