package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// hurried are times of connections that tests can wait for.
var hurried = timings{handshake: 100 * time.Millisecond, pingAfter: time.Second, pingTimeout: 100 * time.Millisecond}

// closesSoon is the most that a connection that says nothing may stay open with hurried times.
const closesSoon = 10 * time.Second

// rawClient speaks HTTP/2 frame by frame.
type rawClient struct {
	net.Conn
	*http2.Framer
	t       *testing.T
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func openHTTP2(t *testing.T, r *running) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{Conn: conn, Framer: http2.NewFramer(conn, conn), t: t}
	c.encoder = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// headers are those of a view, with more.
func (c *rawClient) headers(more ...hpack.HeaderField) []byte {
	return c.headersOf(memoryv1.MemoryService_View_FullMethodName, more...)
}

// headersOf are those of a call, with more.
func (c *rawClient) headersOf(method string, more ...hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "memoryd"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		if err := c.encoder.WriteField(f); err != nil {
			c.t.Fatal(err)
		}
	}
	return bytes.Clone(c.block.Bytes())
}

// wantClosed waits until the server closes a connection.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(closesSoon)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
}

// TestServer_SlowLoris has clients that stop in the midst of whatever they have begun.
func TestServer_SlowLoris(t *testing.T) {
	ca := newAuthority(t)
	secure := newFiles(t).tls(ca)
	secure.times = hurried
	tests := []struct {
		name string
		cfg  Config
		open func(t *testing.T, r *running) net.Conn
	}{
		{"before the TLS handshake", secure, func(t *testing.T, r *running) net.Conn {
			return dialRaw(t, r)
		}},
		{"in the midst of the TLS handshake", secure, func(t *testing.T, r *running) net.Conn {
			conn := dialRaw(t, r)
			if _, err := conn.Write([]byte{22, 3, 1, 1, 0, 1, 0}); err != nil { // A ClientHello of which little comes.
				t.Fatal(err)
			}
			return conn
		}},
		{"after the TLS handshake", secure, func(t *testing.T, r *running) net.Conn {
			conn := tls.Client(dialRaw(t, r), &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			return conn
		}},
		{"in the midst of the preface", Config{times: hurried}, func(t *testing.T, r *running) net.Conn {
			conn := dialRaw(t, r)
			if _, err := io.WriteString(conn, http2.ClientPreface[:10]); err != nil {
				t.Fatal(err)
			}
			return conn
		}},
		{"in the midst of headers", Config{times: hurried}, func(t *testing.T, r *running) net.Conn {
			c := openHTTP2(t, r)
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers()[:5]})
			if err != nil {
				t.Fatal(err)
			}
			return c.Conn
		}},
		{"headers that trickle", Config{times: hurried}, func(t *testing.T, r *running) net.Conn {
			c := openHTTP2(t, r)
			go func() {
				block := c.headers(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", maxHeaderBytes/2), Sensitive: true})
				err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1]})
				ticks := time.NewTicker(20 * time.Millisecond)
				defer ticks.Stop()
				for i := 1; i < len(block) && err == nil; i++ {
					<-ticks.C
					err = c.WriteContinuation(1, false, block[i:i+1])
				}
			}()
			return c.Conn
		}},
		{"in the midst of a frame", Config{times: hurried}, func(t *testing.T, r *running) net.Conn {
			c := openHTTP2(t, r)
			if _, err := c.Write([]byte{0, 1, 0, 1, 4, 0, 0, 0, 1, 0x82}); err != nil { // 1 of 256 bytes
				t.Fatal(err)
			}
			return c.Conn
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, tt.cfg)
			conns := make([]net.Conn, 20)
			for i := range conns {
				conns[i] = tt.open(t, r)
			}
			others := r.conn
			if tt.cfg.TLSCert != "" {
				others = dialTLS(t, r, &tls.Config{RootCAs: ca.pool()})
			}
			if err := viewOn(t.Context(), others); err != nil {
				t.Errorf("a call of someone else: %v", err)
			}
			for _, conn := range conns {
				wantClosed(t, conn)
			}
		})
	}
}

// dialRaw connects without a word.
func dialRaw(t *testing.T, r *running) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestServer_RapidReset opens thousands of calls and takes each back at once.
func TestServer_RapidReset(t *testing.T) {
	const resets = 5000
	r := start(t, Config{Store: &hookedStore{newStore(t), func(ctx context.Context) error { return ctx.Err() }}})
	c := openHTTP2(t, r)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, c.Conn) // What the server says of it.
	}()
	var sendErr error
	for i := range uint32(resets) {
		id := 2*i + 1
		request := []byte{0, 0, 0, 0, 0} // One that is empty.
		if sendErr = errors.Join(
			c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers(), EndHeaders: true}),
			c.WriteData(id, true, request),
			c.WriteRSTStream(id, http2.ErrCodeCancel),
		); sendErr != nil {
			break // The server may well have had enough.
		}
		if i%500 == 0 {
			if err := viewOn(t.Context(), r.conn); err != nil {
				t.Fatalf("a call of someone else after %d resets: %v", i, err)
			}
		}
	}
	if err := viewOn(t.Context(), r.conn); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
	_ = c.Close()
	<-drained
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestServer_LargeHeaders has headers of more than the server takes, from a client of gRPC, which heeds the limit, and
// from one that does not.
func TestServer_LargeHeaders(t *testing.T) {
	r := start(t, Config{})
	large := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 2*maxHeaderBytes))
	if err := viewOn(large, r.conn); err == nil {
		t.Error("a call with headers that are too large was answered")
	}

	c := openHTTP2(t, r)
	block := c.headers(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 8*maxHeaderBytes), Sensitive: true})
	first := true
	for len(block) > 0 {
		part := block[:min(len(block), 16<<10)]
		block = block[len(part):]
		var err error
		if first {
			err = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndStream: true})
		} else {
			err = c.WriteContinuation(1, len(block) == 0, part)
		}
		first = false
		if err != nil {
			break // The server has closed the connection.
		}
	}
	if err := c.SetReadDeadline(time.Now().Add(closesSoon)); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; {
		frame, err := c.ReadFrame()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("headers that are too large are not refused")
		}
		if err != nil {
			break
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			refused = true
		case *http2.HeadersFrame:
			t.Fatalf("the call was answered: %v", f)
		}
	}
	if err := viewOn(t.Context(), r.conn); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// TestServer_EndlessContinuation has headers that never end.
func TestServer_EndlessContinuation(t *testing.T) {
	r := start(t, Config{})
	c := openHTTP2(t, r)
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers()})
	part := c.headers(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 10<<10), Sensitive: true})
	sent := 0
	if err := c.SetDeadline(time.Now().Add(closesSoon)); err != nil {
		t.Fatal(err)
	}
	for ; err == nil; sent++ {
		err = c.WriteContinuation(1, false, part)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after %d frames the server still listens", sent)
	}
	if err := viewOn(t.Context(), r.conn); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// TestServer_LargeMessage announces a message of more than the server takes.
func TestServer_LargeMessage(t *testing.T) {
	r := start(t, Config{})
	stream, err := r.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		memoryv1.FileService_Put_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, MaxRequestBytes+1)
	err = stream.SendMsg(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: chunk}})
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	wantCode(t, stream.RecvMsg(&memoryv1.PutResponse{}), codes.ResourceExhausted)
	if err := viewOn(t.Context(), r.conn); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// TestServer_NeverReads has a client that asks for a file and never reads, not even the pings of the server.
func TestServer_NeverReads(t *testing.T) {
	r := start(t, Config{times: hurried})
	putFile(t, r, bytes.Repeat([]byte("x"), 1<<20))
	c := openHTTP2(t, r)
	request, err := proto.Marshal(&memoryv1.GetRequest{Namespace: "n", Path: "/memories/f"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(10) {
		id := 2*i + 1
		err := errors.Join(
			c.WriteHeaders(http2.HeadersFrameParam{
				StreamID: id, BlockFragment: c.headersOf(memoryv1.FileService_Get_FullMethodName), EndHeaders: true,
			}),
			c.WriteData(id, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...)),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitCalls(t, r, 10)
	ctx, cancel := context.WithTimeout(t.Context(), closesSoon)
	defer cancel()
	for open := 0; open != 1; { // Only the one of others is left.
		if err := viewOn(ctx, r.conn); err != nil {
			t.Fatalf("with %d connections, a call of someone else: %v", open, err)
		}
		r.conns.mu.Lock()
		open = len(r.conns.open)
		r.conns.mu.Unlock()
	}
	awaitIdle(ctx, t, r)
}

// awaitIdle waits until no call runs.
func awaitIdle(ctx context.Context, t *testing.T, r *running) {
	t.Helper()
	for r.arrivals.running.Load() > 0 {
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d calls still run", r.arrivals.running.Load())
		}
		runtime.Gosched()
	}
}
