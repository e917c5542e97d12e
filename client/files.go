package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// chunkBytes is how much of a file one message of Put carries.
const chunkBytes = 64 << 10

// Put stores all that r gives as a file, makes the directories above it, and replaces a file that is there. Nothing is
// stored if r fails; its error is returned wrapped. What the header leaves out is filled in as for the other methods.
func (c *Client) Put(ctx context.Context, header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that is left before its end, and so keeps the server from storing a part
	stream, err := c.files.Put(ctx)
	if err != nil {
		return nil, err
	}
	part := &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{Header: prepare(c, header)}}
	buf := make([]byte, chunkBytes)
	for {
		// io.EOF: the server has answered before the end, for instance that the file is too large. Its answer is below.
		if err := stream.Send(part); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		n, err := fill(buf, r)
		if err != nil {
			return nil, fmt.Errorf("read content of %s: %w", header.GetPath(), err)
		}
		if n == 0 {
			break
		}
		part = &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: buf[:n]}}
	}
	return stream.CloseAndRecv()
}

// fill reads until buf is full or r ends. Unlike io.ReadFull it tells the end of r from an io.ErrUnexpectedEOF that r
// returns itself, which must not pass for the end of the file.
func fill(buf []byte, r io.Reader) (n int, err error) {
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Get writes the bytes of a file to w and returns what the server says about it. Where the header has a result with
// is_error nothing was written. An error of w is returned wrapped.
func (c *Client) Get(ctx context.Context, req *memoryv1.GetRequest, w io.Writer) (*memoryv1.GetHeader, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Get(ctx, prepare(c, req))
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	header := first.GetHeader()
	if header == nil {
		return nil, status.Error(codes.Internal, "the stream of the file does not begin with a header")
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return header, nil
		}
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(part.GetChunk()); err != nil {
			return nil, fmt.Errorf("write content of %s: %w", req.GetPath(), err)
		}
	}
}
