package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// stopsSoon is the most that a stop may take, far below the timeout of the servers here.
const stopsSoon = 5 * time.Second

// wantStopSoon stops a server whose clients say nothing.
func wantStopSoon(t *testing.T, r *running) {
	t.Helper()
	before := time.Now()
	if err := r.stop(); err != nil {
		t.Errorf("got %v, want a clean stop", err)
	}
	if took := time.Since(before); took > stopsSoon {
		t.Errorf("the stop took %s", took)
	}
}

func patientServer(t *testing.T) *running {
	t.Helper()
	return start(t, Config{ShutdownTimeout: time.Minute, CallTimeout: time.Minute})
}

func TestStop_SilentPut(t *testing.T) {
	r := patientServer(t)
	put, err := memoryv1.NewFileServiceClient(r.conn).Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := &memoryv1.PutHeader{Namespace: "n", Path: "/memories/f"}
	if err := put.Send(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{Header: header}}); err != nil {
		t.Fatal(err)
	}
	awaitCalls(t, r, 1)
	wantStopSoon(t, r)
	wantStatus(t, put.RecvMsg(&memoryv1.PutResponse{}), codes.Unavailable, "STORE_CLOSED")
}

// awaitCalls waits until the server knows of a number of calls. Their requests may still be on the way.
func awaitCalls(t *testing.T, r *running, calls int64) {
	t.Helper()
	for r.arrivals.running.Load() < calls {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

// halfRequest begins a unary call whose request announces 16 MiB, of which 11 bytes come.
func halfRequest(t *testing.T, r *running) (answer <-chan string) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	body, send := io.Pipe()
	t.Cleanup(func() { _ = send.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+r.Addrs()[0].String()+memoryv1.MemoryService_Create_FullMethodName, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	ended := make(chan string, 1)
	go func() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			ended <- err.Error()
			return
		}
		_ = resp.Body.Close()
		ended <- resp.Header.Get("Grpc-Status")
	}()
	prefix := binary.BigEndian.AppendUint32([]byte{0}, 16<<20-1)
	// The call may have been refused before.
	if _, err := send.Write(append(prefix, "hello world"...)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	return ended
}

func TestStop_HalfRequest(t *testing.T) {
	r := patientServer(t)
	halfRequest(t, r)
	wantStopSoon(t, r)
}

func TestServer_RequestTimeout(t *testing.T) {
	r := start(t, Config{CallTimeout: 20 * time.Millisecond})
	ended := halfRequest(t, r)
	if got, want := <-ended, "1"; got != want { // CANCELLED
		t.Errorf("got status %s, want %s", got, want)
	}
}

// openRaw connects without gRPC and says something.
func openRaw(t *testing.T, r *running, say []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(say); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // The server has begun to talk, so it knows of this one.
		t.Fatal(err)
	}
	return conn
}

func TestStop_SilentConnection(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	for name, say := range map[string][]byte{
		"does not shake hands":   nil,
		"stops in the midst":     []byte(preface[:10]),
		"never hears of the end": append([]byte(preface), settings...),
	} {
		t.Run(name, func(t *testing.T) {
			r := patientServer(t)
			conn := openRaw(t, r, say)
			wantStopSoon(t, r)
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection was not closed: %v", err)
			}
		})
	}
}

// TestStop_AnswerIsNotTaken stops a server with an answer that its client does not take.
func TestStop_AnswerIsNotTaken(t *testing.T) {
	r := patientServer(t)
	putFile(t, r, bytes.Repeat([]byte("x"), 1<<20))
	get, err := memoryv1.NewFileServiceClient(r.conn).Get(t.Context(),
		&memoryv1.GetRequest{Namespace: "n", Path: "/memories/f"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get.Recv(); err != nil { // The header; the rest is more than fits the window of the connection.
		t.Fatal(err)
	}
	wantStopSoon(t, r)
}

func putFile(t *testing.T, r *running, data []byte) {
	t.Helper()
	put, err := memoryv1.NewFileServiceClient(r.conn).Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sendFile(t, put, data)
}

// sendFile sends a file in one chunk, and wants it to be stored.
func sendFile(
	t *testing.T, put grpc.ClientStreamingClient[memoryv1.PutRequest, memoryv1.PutResponse], data []byte,
) {
	t.Helper()
	header := &memoryv1.PutHeader{Namespace: "n", Path: "/memories/f"}
	for _, req := range []*memoryv1.PutRequest{
		{Part: &memoryv1.PutRequest_Header{Header: header}}, {Part: &memoryv1.PutRequest_Chunk{Chunk: data}},
	} {
		if err := put.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := put.CloseAndRecv()
	if err != nil || resp.GetResult().GetIsError() {
		t.Errorf("got %v, %v; want the file to be stored", resp, err)
	}
}

// TestStop_PutInFlight lets a client end its request while the server stops.
func TestStop_PutInFlight(t *testing.T) {
	r := patientServer(t)
	watch, err := healthpb.NewHealthClient(r.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	put, err := memoryv1.NewFileServiceClient(r.conn).Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	awaitCalls(t, r, 2)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("got %v, %v; want NOT_SERVING", resp, err)
	}
	sendFile(t, put, []byte("x"))
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestStop_LongCall has a call end long after its connections fell silent: its answer must still get through.
func TestStop_LongCall(t *testing.T) {
	gate := newGate()
	r := start(t, Config{Store: &hookedStore{newStore(t), gate.wait}, ShutdownTimeout: time.Minute})
	openRaw(t, r, nil)
	answered := make(chan error, 1)
	go func() {
		_, err := view(context.WithoutCancel(t.Context()), r)
		answered <- err
	}()
	<-gate.entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	timer := time.NewTimer(3 * patience)
	defer timer.Stop()
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call in flight: %v", err)
	case <-timer.C:
	}
	close(gate.opened)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight was not answered: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}
