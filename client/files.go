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

const (
	// chunkBytes is how much of a file one message of Put carries.
	chunkBytes = 64 << 10
	// maxFileBytes is the most bytes that a file may have under any setting of the service.
	maxFileBytes = 8 << 20
)

// Put stores all that r gives as a file, makes the directories above it, and replaces a file that is there. Nothing is
// stored if r fails; its error is returned wrapped. What the header leaves out is filled in as for the other methods.
// So that the call can be repeated, Put keeps what it has read, up to the 8 MiB that a file may have; when it has read
// more it makes no further attempt.
func (c *Client) Put(ctx context.Context, header *memoryv1.PutHeader, r io.Reader) (*memoryv1.PutResponse, error) {
	header = prepare(c, header)
	a := c.newAttempts(header)
	content := &replay{r: r}
	for {
		resp, err := c.put(ctx, a, header, content)
		if err == nil {
			err = a.refused(resp)
		}
		switch {
		case err == nil:
			a.succeeded()
			return resp, nil
		case content.failed():
			return nil, fmt.Errorf("read content of %s: %w", header.GetPath(), content.err)
		case content.forgotten || !a.again(ctx, err):
			return nil, a.failed(ctx, err)
		}
		content.rewind()
	}
}

// put is one attempt of Put.
func (c *Client) put(
	ctx context.Context, a *attempts, header *memoryv1.PutHeader, content *replay,
) (*memoryv1.PutResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that is left before its end, and so keeps the server from storing a part
	a.sent = new(sent)
	stream, err := c.files.Put(ctx)
	if err != nil {
		return nil, err
	}
	part := &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{Header: header}}
	buf := make([]byte, chunkBytes)
	for {
		// io.EOF: the server has answered before the end, for instance that the file is too large. Its answer is below.
		if err := stream.Send(part); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		n, err := fill(buf, content)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			a.sent.set() // before the end has come the server stores nothing
			break
		}
		part = &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: buf[:n]}}
	}
	return stream.CloseAndRecv()
}

// replay is a reader that can begin anew, unless it has read more than a file may have.
type replay struct {
	r         io.Reader
	read      []byte // what came from r
	next      int    // the index in read of what comes next
	forgotten bool   // read is not all that came
	err       error  // of r, after which it is not read again
}

// Read implements io.Reader.
func (c *replay) Read(p []byte) (int, error) {
	if c.next < len(c.read) {
		n := copy(p, c.read[c.next:])
		c.next += n
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	var n int
	n, c.err = c.r.Read(p)
	if c.forgotten = c.forgotten || len(c.read)+n > maxFileBytes; c.forgotten {
		c.read = nil
	} else {
		c.read = append(c.read, p[:n]...)
	}
	c.next = len(c.read)
	return n, c.err
}

func (c *replay) rewind() { c.next = 0 }

// failed tells whether r came to another end than io.EOF.
func (c *replay) failed() bool { return c.err != nil && !errors.Is(c.err, io.EOF) }

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
// is_error nothing was written. An error of w is returned wrapped. The call is not repeated once anything was written.
func (c *Client) Get(ctx context.Context, req *memoryv1.GetRequest, w io.Writer) (*memoryv1.GetHeader, error) {
	req = prepare(c, req)
	a := c.newAttempts(req)
	for {
		header, final, err := c.get(ctx, a, req, w)
		if err == nil {
			a.succeeded()
			return header, nil
		}
		if final {
			return nil, identified(err)
		}
		if !a.again(ctx, err) {
			return nil, a.failed(ctx, err)
		}
	}
}

// get is one attempt of Get. final tells that there can be no other.
func (c *Client) get(
	ctx context.Context, a *attempts, req *memoryv1.GetRequest, w io.Writer,
) (header *memoryv1.GetHeader, final bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, a.sent = withSent(ctx)
	stream, err := c.files.Get(ctx, req)
	if err != nil {
		return nil, false, err
	}
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	header = first.GetHeader()
	if header == nil {
		return nil, true, status.Error(codes.Internal, "the stream of the file does not begin with a header")
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return header, true, nil
		}
		if err != nil {
			return nil, final, err
		}
		final = true
		if _, err := w.Write(part.GetChunk()); err != nil {
			return nil, true, fmt.Errorf("write content of %s: %w", req.GetPath(), err)
		}
	}
}
