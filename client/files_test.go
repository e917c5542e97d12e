package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

type (
	putStream = grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]
	getStream = grpc.ServerStreamingServer[memoryv1.GetResponse]
)

func TestPut(t *testing.T) {
	var header *memoryv1.PutHeader
	var chunks [][]byte
	f := &fake{}
	f.put = func(stream putStream) error {
		header, chunks = nil, nil
		for {
			req, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return stream.SendAndClose(&memoryv1.PutResponse{Revision: 5})
			}
			if err != nil {
				return err
			}
			if h := req.GetHeader(); h != nil {
				header = h
			} else {
				chunks = append(chunks, req.GetChunk())
			}
		}
	}
	c, _ := start(t, f)
	c.newID = func() string { return "id-1" }

	for _, tt := range []struct {
		name   string
		size   int
		reader func(io.Reader) io.Reader
		chunks int
	}{
		{"empty", 0, nil, 0},
		{"one byte", 1, nil, 1},
		{"one chunk", chunkBytes, nil, 1},
		{"a byte more", chunkBytes + 1, nil, 2},
		{"many chunks", 10*chunkBytes - 1, nil, 10},
		{"reader of half the bytes", 2 * chunkBytes, iotest.HalfReader, 2},
		{"reader with data and EOF at once", 2 * chunkBytes, iotest.DataErrReader, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := bytes.Repeat([]byte("0123456789abcdef\x00\xff\n"), tt.size/19+1)[:tt.size]
			var r io.Reader = bytes.NewReader(data)
			if tt.reader != nil {
				r = tt.reader(r)
			}
			sent := &memoryv1.PutHeader{Path: "/memories/a\xff.png"}
			resp, err := c.Put(t.Context(), sent, r)
			if err != nil || resp.GetRevision() != 5 {
				t.Fatalf("got %v, %v, want revision 5", resp, err)
			}
			want := &memoryv1.PutHeader{Namespace: DefaultNamespace, RequestId: "id-1", Path: "/memories/a\uFFFD.png"}
			if diff := cmp.Diff(want, header, protocmp.Transform()); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if sent.GetPath() != "/memories/a\xff.png" || sent.GetNamespace() != "" {
				t.Errorf("the caller's header was changed: %v", sent)
			}
			if !bytes.Equal(bytes.Join(chunks, nil), data) {
				t.Errorf("the bytes differ")
			}
			if len(chunks) != tt.chunks {
				t.Errorf("got %d chunks, want %d", len(chunks), tt.chunks)
			}
		})
	}
}

// endless never ends: only an answer of the server can end a Put of it.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestPut_ServerAnswersEarly(t *testing.T) {
	want := &memoryv1.PutResponse{Result: &memoryv1.ToolResult{
		IsError: true, Reason: memoryv1.Reason_REASON_FILE_TOO_LARGE, Content: textContent("too large"),
	}}
	f := &fake{}
	c, _ := start(t, f)

	f.put = func(stream putStream) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		return stream.SendAndClose(want)
	}
	got, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, endless{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}

	f.put = func(putStream) error { return serviceError(codes.FailedPrecondition, "STORE_READ_ONLY", true) }
	_, err = c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, endless{})
	if status.Code(err) != codes.FailedPrecondition || Reason(err) != "STORE_READ_ONLY" {
		t.Errorf("got %v, want the status of the service", err)
	}
}

func TestPut_ReaderFails(t *testing.T) {
	// A reader that was cut off, such as the body of a response, gives io.ErrUnexpectedEOF.
	for _, broken := range []error{errors.New("disk on fire"), io.ErrUnexpectedEOF} {
		t.Run(broken.Error(), func(t *testing.T) {
			ended := make(chan error, 1)
			f := &fake{}
			f.put = func(stream putStream) error {
				for {
					if _, err := stream.Recv(); err != nil {
						ended <- err
						return err
					}
				}
			}
			c, _ := start(t, f)
			r := io.MultiReader(strings.NewReader(strings.Repeat("x", chunkBytes+10)), iotest.ErrReader(broken))
			_, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, r)
			if !errors.Is(err, broken) || err.Error() != "read content of /memories/a: "+broken.Error() {
				t.Errorf("got %v, want the error of the reader", err)
			}
			if got := status.Code(<-ended); got != codes.Canceled {
				t.Errorf("the server saw %v, want a cancelled stream", got)
			}
		})
	}
}

// A Put whose stream breaks is sent again from the beginning, under the same id, though its reader cannot seek.
func TestPut_Repeated(t *testing.T) {
	lost := status.Error(codes.Unavailable, "connection reset")
	for _, tt := range []struct {
		name     string
		size     int
		breaks   int   // the first attempts break after this many chunks
		err      error // of the attempts that break
		attempts int
		want     codes.Code
		unsure   bool
	}{
		{"at the beginning", 3 * chunkBytes, 0, lost, 3, codes.OK, false},
		{"in the middle", 3 * chunkBytes, 2, lost, 3, codes.OK, false},
		{"at the end", 3 * chunkBytes, 100, lost, 3, codes.OK, false},
		{"as large as a file may be", maxFileBytes, 100, lost, 3, codes.OK, false},
		{"larger", maxFileBytes + 1, 1000, lost, 1, codes.Unavailable, true},
		{
			"refused", 3 * chunkBytes, 100, serviceError(codes.FailedPrecondition, "STORE_READ_ONLY", true), 1,
			codes.FailedPrecondition, false,
		},
		{"failed", 3 * chunkBytes, 100, serviceError(codes.Internal, "INTERNAL", false), 1, codes.Internal, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := bytes.Repeat([]byte("0123456789abcdef"), tt.size/16+1)[:tt.size]
			attempts, ids := 0, make(map[string]bool)
			var stored []byte
			f := &fake{}
			f.put = func(stream putStream) error {
				attempts++
				stored = nil
				for chunks := 0; attempts > 2 || chunks < tt.breaks; chunks++ {
					req, err := stream.Recv()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						return err
					}
					if h := req.GetHeader(); h != nil {
						ids[h.GetRequestId()] = true
						chunks--
					}
					stored = append(stored, req.GetChunk()...)
				}
				if attempts <= 2 {
					return tt.err
				}
				return stream.SendAndClose(&memoryv1.PutResponse{Revision: 5})
			}
			c, _ := start(t, f)
			_, err := c.Put(t.Context(), &memoryv1.PutHeader{}, io.MultiReader(bytes.NewReader(data)))
			if status.Code(err) != tt.want || MayHaveBeenMade(err) != tt.unsure {
				t.Errorf("got %v, may have been made: %v; want code %v, %v", err, MayHaveBeenMade(err), tt.want, tt.unsure)
			}
			if attempts != tt.attempts || len(ids) > 1 {
				t.Errorf("got %d attempts with the ids %v, want %d with one", attempts, ids, tt.attempts)
			}
			if err == nil && !bytes.Equal(stored, data) {
				t.Errorf("the bytes differ")
			}
		})
	}
}

// The end of the reader is its end, also in another attempt.
func TestPut_ReaderFailsInAnotherAttempt(t *testing.T) {
	attempts := 0
	f := &fake{}
	f.put = func(stream putStream) error {
		if attempts++; attempts == 1 {
			return status.Error(codes.Unavailable, "connection reset")
		}
		for {
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
	}
	c, _ := start(t, f)
	broken := errors.New("disk on fire")
	gone := make(chan struct{})
	// The reader fails only when the first attempt surely has.
	c.timing.sleep = func(context.Context, time.Duration) error { close(gone); return nil }
	more := endless{}
	r := readerFunc(func(p []byte) (int, error) {
		select {
		case <-gone:
			return 0, broken
		default:
			return more.Read(p[:1])
		}
	})
	if _, err := c.Put(t.Context(), &memoryv1.PutHeader{}, r); !errors.Is(err, broken) || MayHaveBeenMade(err) {
		t.Errorf("got %v, want the error of the reader and no doubt", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A Get is repeated until the first byte is written.
func TestGet_Repeated(t *testing.T) {
	for _, tt := range []struct {
		name     string
		breaks   int // the first attempt breaks after this many parts
		attempts int
		want     string
		code     codes.Code
	}{
		{"before the header", 0, 2, "ab", codes.OK},
		{"before the first byte", 1, 2, "ab", codes.OK},
		{"after the first byte", 2, 1, "a", codes.Unavailable},
		{"at the end", 3, 1, "ab", codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempts := 0
			f := &fake{}
			f.get = func(_ *memoryv1.GetRequest, stream getStream) error {
				attempts++
				for i, part := range []*memoryv1.GetResponse{getHeader(&memoryv1.GetHeader{}), getChunk("a"), getChunk("b")} {
					if attempts == 1 && i == tt.breaks {
						break
					}
					if err := stream.Send(part); err != nil {
						return err
					}
				}
				if attempts == 1 {
					return status.Error(codes.Unavailable, "connection reset")
				}
				return nil
			}
			c, _ := start(t, f)
			var text bytes.Buffer
			_, err := c.Get(t.Context(), &memoryv1.GetRequest{}, &text)
			if status.Code(err) != tt.code || MayHaveBeenMade(err) {
				t.Errorf("got %v, want code %v and no doubt", err, tt.code)
			}
			if attempts != tt.attempts || text.String() != tt.want {
				t.Errorf("got %d attempts and %q, want %d and %q", attempts, text.String(), tt.attempts, tt.want)
			}
		})
	}
}

func TestPut_DeadService(t *testing.T) {
	_, err := dead(t).Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a"}, strings.NewReader("x"))
	if !IsUnreachable(err) {
		t.Errorf("got %v, want unreachable", err)
	}
}

func getHeader(h *memoryv1.GetHeader) *memoryv1.GetResponse {
	return &memoryv1.GetResponse{Part: &memoryv1.GetResponse_Header{Header: h}}
}

func getChunk(s string) *memoryv1.GetResponse {
	return &memoryv1.GetResponse{Part: &memoryv1.GetResponse_Chunk{Chunk: []byte(s)}}
}

// failingWriter takes one write and fails.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestGet(t *testing.T) {
	full := errors.New("disk full")
	failed := &memoryv1.GetHeader{Result: &memoryv1.ToolResult{IsError: true, Content: textContent("missing")}}
	for _, tt := range []struct {
		name  string
		parts []*memoryv1.GetResponse
		end   error // of the server
		w     io.Writer
		want  *memoryv1.GetHeader
		text  string
		err   error
	}{
		{
			name: "chunks",
			parts: []*memoryv1.GetResponse{
				getHeader(&memoryv1.GetHeader{Revision: 3}), getChunk("a\x00"), getChunk("\xff"),
			},
			want: &memoryv1.GetHeader{Revision: 3}, text: "a\x00\xff",
		},
		{
			name:  "empty file",
			parts: []*memoryv1.GetResponse{getHeader(&memoryv1.GetHeader{Revision: 3})},
			want:  &memoryv1.GetHeader{Revision: 3},
		},
		{name: "error result", parts: []*memoryv1.GetResponse{getHeader(failed)}, want: failed},
		{name: "status", end: status.Error(codes.NotFound, "no"), err: status.Error(codes.NotFound, "no")},
		{
			name:  "status in the middle",
			parts: []*memoryv1.GetResponse{getHeader(&memoryv1.GetHeader{}), getChunk("a")},
			end:   status.Error(codes.DataLoss, "bad"), text: "a", err: status.Error(codes.DataLoss, "bad"),
		},
		{
			name: "nothing", err: status.Error(codes.Internal, "the stream of the file does not begin with a header"),
		},
		{
			name: "no header", parts: []*memoryv1.GetResponse{getChunk("a")},
			err: status.Error(codes.Internal, "the stream of the file does not begin with a header"),
		},
		{
			name:  "writer fails",
			parts: []*memoryv1.GetResponse{getHeader(&memoryv1.GetHeader{}), getChunk("a"), getChunk("b")},
			w:     failingWriter{full}, err: full,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			f.get = func(req *memoryv1.GetRequest, stream getStream) error {
				if req.GetNamespace() != DefaultNamespace || req.GetPath() != "/memories/a" {
					t.Errorf("the server got %v", req)
				}
				for _, part := range tt.parts {
					if err := stream.Send(part); err != nil {
						return err
					}
				}
				return tt.end
			}
			c, _ := start(t, f)
			var text bytes.Buffer
			w := tt.w
			if w == nil {
				w = &text
			}
			got, err := c.Get(t.Context(), &memoryv1.GetRequest{Path: "/memories/a"}, w)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if text.String() != tt.text {
				t.Errorf("bytes %q, want %q", text.String(), tt.text)
			}
		})
	}
}

func TestGet_DeadService(t *testing.T) {
	_, err := dead(t).Get(t.Context(), &memoryv1.GetRequest{Path: "/memories/a"}, io.Discard)
	if !IsUnreachable(err) {
		t.Errorf("got %v, want unreachable", err)
	}
}
