package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// call is one call from its headers to its end. It is the context of the call too: what one layer finds out and others
// ask for is in it, rather than in a context for each of them.
type call struct {
	context.Context // of gRPC
	cancel          context.CancelFunc

	arrival arrival
	walk    walk // of a call that is no stream
	caller  caller
	trail   audit.Trail // what the layers within tell of the call, for the log and the audit trail
	timeout lazyTimeout // the context of the handler, where the call is no stream

	mu        sync.Mutex // messages of a stream may come while the call ends
	requestID string     // "" as long as nobody asks for it
	namespace string
	result    *memoryv1.ToolResult
}

type callKey struct{}

// Value implements context.Context.
func (c *call) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c
	case audit.ContextKey:
		return &c.trail
	case auth.ContextKey:
		if c.caller.principal != nil {
			return c.caller.principal
		}
	}
	return c.Context.Value(key)
}

// callFrom returns the call whose context it is, nil where it is none.
func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// callIn returns the call whose context it is, and its context. One that came by no connection begins here.
func callIn(ctx context.Context) (*call, context.Context) {
	if c := callFrom(ctx); c != nil {
		return c, ctx
	}
	c := &call{Context: ctx, requestID: givenRequestID(metadata.ValueFromIncomingContext(ctx, requestIDKey))}
	return c, c
}

// requestIDKey is the key of metadata under which a call has an id that finds it again in the log, the audit trail and
// elsewhere: in the headers where the caller chooses it, and in the trailers of the answer. The request_id of the API
// is another thing: it makes a change happen once.
const requestIDKey = "x-request-id"

// maxRequestIDBytes is the longest id that a caller may choose.
const maxRequestIDBytes = 128

// givenRequestID returns the id that a caller has chosen, "" where that is none that can be printed: the call gets
// another then.
func givenRequestID(values []string) string {
	if len(values) != 1 || len(values[0]) > maxRequestIDBytes {
		return ""
	}
	for _, c := range []byte(values[0]) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return values[0]
}

// id returns the request id of the call, and makes one where it has none yet.
func (c *call) id() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requestID == "" {
		var random [16]byte
		_, _ = rand.Read(random[:]) // It never fails.
		c.requestID = hex.EncodeToString(random[:])
	}
	return c.requestID
}

// knownID returns the request id of the call where it has one already.
func (c *call) knownID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requestID
}

// received notes what a request, or the first message of a stream, is about.
func (c *call) received(req any) {
	if put, ok := req.(*memoryv1.PutRequest); ok {
		req = put.GetHeader()
	}
	if m, ok := req.(interface{ GetNamespace() string }); ok && m.GetNamespace() != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.namespace = m.GetNamespace()
	}
}

// sent notes what a response says.
func (c *call) sent(resp any) {
	if get, ok := resp.(*memoryv1.GetResponse); ok {
		resp = get.GetHeader()
	}
	if m, ok := resp.(interface{ GetResult() *memoryv1.ToolResult }); ok && m.GetResult() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.result = m.GetResult()
	}
}

// about returns what is known of the messages of the call: "" and nil where nothing is.
func (c *call) about() (namespace string, result *memoryv1.ToolResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespace, c.result
}

// told returns what the log and the audit trail say of every call. That costs something, so it is asked for where there
// is a line to write.
func (c *call) told() audit.Event {
	if p, ok := peer.FromContext(c); ok {
		c.trail.SetPeer(p.Addr.String())
	}
	c.trail.SetXRequestID(c.id())
	return c.trail.Common()
}
