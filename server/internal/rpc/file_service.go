package rpc

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

const (
	// chunkBytes is the size of the chunks that Get sends.
	chunkBytes = 64 << 10
	// maxEntries is the most entries that List returns, and what it returns where the request does not say.
	maxEntries = 1000
)

type fileService struct {
	memoryv1.UnimplementedFileServiceServer
	executor
}

var _ memoryv1.FileServiceServer = (*fileService)(nil)

// Put implements memoryv1.FileServiceServer.
func (s *fileService) Put(stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) error {
	header, err := receiveHeader(stream)
	if err != nil {
		return StatusError(err)
	}
	data, err := receiveChunks(stream)
	if err != nil {
		return StatusError(err)
	}
	res, err := s.do(stream.Context(), header, memory.Put{Path: header.GetPath(), Data: data},
		conditions{ifRevision: header.IfRevision, ifSHA256: header.IfSha256})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&memoryv1.PutResponse{
		Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry),
	})
}

var errNoHeader = invalid("header", "the first message of Put must be the header")

// receiveHeader receives the first message of Put and checks it, so that nothing is sent in vain.
func receiveHeader(stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) (
	*memoryv1.PutHeader, error,
) {
	req, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	header := req.GetHeader()
	if header == nil {
		return nil, errNoHeader
	}
	return header, checkRequest(header)
}

// receiveChunks receives the bytes of Put. It stops at one byte more than a file may ever have: that is what the
// command needs to say that the file is too large.
func receiveChunks(stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) ([]byte, error) {
	const most = memory.MaxFileBytes + 1
	var data []byte
	for len(data) < most {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		part, ok := req.GetPart().(*memoryv1.PutRequest_Chunk)
		if !ok {
			return nil, invalid("chunk", "every message of Put after the first must be a chunk")
		}
		data = append(data, part.Chunk[:min(len(part.Chunk), most-len(data))]...)
	}
	return data, nil
}

// Get implements memoryv1.FileServiceServer.
func (s *fileService) Get(
	req *memoryv1.GetRequest, stream grpc.ServerStreamingServer[memoryv1.GetResponse],
) error {
	if err := checkRequest(req); err != nil {
		return StatusError(err)
	}
	res, data, err := s.memory.Read(stream.Context(), req.GetNamespace(), req.GetPath())
	if err != nil {
		return StatusError(err)
	}
	if res.Entry != nil && res.Entry.Dir {
		return StatusError(invalid("path", "path is a directory; Get reads files"))
	}
	if !res.IsError() {
		res.Content = nil // The bytes follow.
	}
	s.recorder.Command("get", ReasonLabel(memoryv1.Reason(res.Reason)))
	header := &memoryv1.GetHeader{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}
	if err := stream.Send(&memoryv1.GetResponse{Part: &memoryv1.GetResponse_Header{Header: header}}); err != nil {
		return StatusError(err)
	}
	for chunk := range slices.Chunk(data, chunkBytes) {
		if err := stream.Send(&memoryv1.GetResponse{Part: &memoryv1.GetResponse_Chunk{Chunk: chunk}}); err != nil {
			return StatusError(err)
		}
	}
	return nil
}

// List implements memoryv1.FileServiceServer.
func (s *fileService) List(ctx context.Context, req *memoryv1.ListRequest) (*memoryv1.ListResponse, error) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	limit, err := pageSize(req.GetPageSize(), maxEntries, maxEntries)
	if err != nil {
		return nil, StatusError(err)
	}
	after, err := decodePageToken(req.GetPageToken())
	if err != nil {
		return nil, StatusError(err)
	}
	res, more, err := s.memory.List(ctx, req.GetNamespace(), req.GetPath(), after, limit)
	if err != nil {
		return nil, StatusError(err)
	}
	s.recorder.Command("list", ReasonLabel(memoryv1.Reason(res.Reason)))
	resp := &memoryv1.ListResponse{
		Result:   toResult(res),
		Revision: res.Revision,
		Entries:  toEntries(res.Entries),
	}
	if n := len(res.Entries); more && n > 0 {
		resp.NextPageToken = encodePageToken(res.Entries[n-1].Path)
	}
	return resp, nil
}

// Pin implements memoryv1.FileServiceServer.
func (s *fileService) Pin(ctx context.Context, req *memoryv1.PinRequest) (*memoryv1.PinResponse, error) {
	res, err := s.do(ctx, req, memory.Pin{Path: req.GetPath(), Unpin: req.GetUnpin()}, conditions{})
	if err != nil {
		return nil, err
	}
	return &memoryv1.PinResponse{Result: toResult(res), Revision: res.Revision, Entry: toEntry(res.Entry)}, nil
}
