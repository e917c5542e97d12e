package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// The methods below fill in what the request leaves out, in a copy: an empty namespace is DefaultNamespace, and a
// write without a request id gets a random one. Invalid UTF-8 becomes U+FFFD. A command that failed because of what
// was asked for is a ToolResult with is_error in the response, not an error. Calls are repeated as the package comment
// says.

// View shows a directory, a text file or an image.
func (c *Client) View(ctx context.Context, req *memoryv1.ViewRequest) (*memoryv1.ViewResponse, error) {
	return call(ctx, c, c.memory.View, req)
}

// Create makes a text file and the directories above it.
func (c *Client) Create(ctx context.Context, req *memoryv1.CreateRequest) (*memoryv1.CreateResponse, error) {
	return call(ctx, c, c.memory.Create, req)
}

// StrReplace replaces the one place where a text occurs in a file.
func (c *Client) StrReplace(
	ctx context.Context, req *memoryv1.StrReplaceRequest,
) (*memoryv1.StrReplaceResponse, error) {
	return call(ctx, c, c.memory.StrReplace, req)
}

// Insert puts lines after a line of a file.
func (c *Client) Insert(ctx context.Context, req *memoryv1.InsertRequest) (*memoryv1.InsertResponse, error) {
	return call(ctx, c, c.memory.Insert, req)
}

// Delete removes a file, or a directory with everything below it.
func (c *Client) Delete(ctx context.Context, req *memoryv1.DeleteRequest) (*memoryv1.DeleteResponse, error) {
	return call(ctx, c, c.memory.Delete, req)
}

// Rename moves a file or directory to a path that does not exist yet.
func (c *Client) Rename(ctx context.Context, req *memoryv1.RenameRequest) (*memoryv1.RenameResponse, error) {
	return call(ctx, c, c.memory.Rename, req)
}

// Execute runs whichever command the input of a tool_use block holds. Agents use a Handler instead, which also turns
// errors into texts for the model.
func (c *Client) Execute(ctx context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
	return call(ctx, c, c.memory.Execute, req)
}

// Apply runs up to 64 commands in one transaction: all of them, or none where one of them fails. A batch that no
// message carries has a result that names that limit, as those have that the service refuses.
func (c *Client) Apply(ctx context.Context, req *memoryv1.ApplyRequest) (*memoryv1.ApplyResponse, error) {
	req = prepare(c, req)
	if proto.Size(req) > maxRequestBytes {
		refused := errorResult(memoryv1.Reason_REASON_BATCH_TOO_LARGE, textBatchTooLarge)
		return &memoryv1.ApplyResponse{Result: &memoryv1.ToolResult{
			IsError: refused.IsError, Reason: refused.Reason, Content: refused.Content,
		}}, nil
	}
	return repeat(ctx, c.newAttempts(req), c.memory.Apply, req)
}

// List lists every entry below a directory, page by page.
func (c *Client) List(ctx context.Context, req *memoryv1.ListRequest) (*memoryv1.ListResponse, error) {
	return call(ctx, c, c.files.List, req)
}

// Pin keeps a file from expiring, or lets it expire again.
func (c *Client) Pin(ctx context.Context, req *memoryv1.PinRequest) (*memoryv1.PinResponse, error) {
	return call(ctx, c, c.files.Pin, req)
}

// GetNamespace returns a namespace with its settings. One that was never written is returned empty.
func (c *Client) GetNamespace(
	ctx context.Context, req *memoryv1.GetNamespaceRequest,
) (*memoryv1.GetNamespaceResponse, error) {
	return call(ctx, c, c.admin.GetNamespace, req)
}

// UpdateNamespace changes settings of a namespace.
func (c *Client) UpdateNamespace(
	ctx context.Context, req *memoryv1.UpdateNamespaceRequest,
) (*memoryv1.UpdateNamespaceResponse, error) {
	return call(ctx, c, c.admin.UpdateNamespace, req)
}

// ListNamespaces lists the namespaces that hold anything, page by page.
func (c *Client) ListNamespaces(
	ctx context.Context, req *memoryv1.ListNamespacesRequest,
) (*memoryv1.ListNamespacesResponse, error) {
	return call(ctx, c, c.admin.ListNamespaces, req)
}

// DeleteNamespace removes a namespace with all its files and settings. As everywhere, an empty name is
// DefaultNamespace. The service keeps no record of it. So where an answer was lost, and the call, repeated, finds no
// such namespace, that counts as success; and what others have written to the namespace in between is removed too.
func (c *Client) DeleteNamespace(
	ctx context.Context, req *memoryv1.DeleteNamespaceRequest,
) (*memoryv1.DeleteNamespaceResponse, error) {
	resp, err := call(ctx, c, c.admin.DeleteNamespace, req)
	if MayHaveBeenMade(err) && Reason(err) == reasonNamespaceNotFound {
		return &memoryv1.DeleteNamespaceResponse{}, nil
	}
	return resp, err
}

// PlanExpiry lists the files of a namespace that expire, page by page, and removes none of them.
func (c *Client) PlanExpiry(
	ctx context.Context, req *memoryv1.PlanExpiryRequest,
) (*memoryv1.PlanExpiryResponse, error) {
	return call(ctx, c, c.admin.PlanExpiry, req)
}

// Screen searches the files of a namespace for what looks like a secret, page by page, and changes nothing.
func (c *Client) Screen(ctx context.Context, req *memoryv1.ScreenRequest) (*memoryv1.ScreenResponse, error) {
	return call(ctx, c, c.admin.Screen, req)
}

// GetActivity returns what the service does right now. It needs the right admin on all namespaces.
func (c *Client) GetActivity(
	ctx context.Context, req *memoryv1.GetActivityRequest,
) (*memoryv1.GetActivityResponse, error) {
	return call(ctx, c, c.admin.GetActivity, req)
}

// method is a method of a generated client.
type method[Req, Resp proto.Message] func(context.Context, Req, ...grpc.CallOption) (Resp, error)

func call[Req, Resp proto.Message](ctx context.Context, c *Client, m method[Req, Resp], req Req) (Resp, error) {
	req = prepare(c, req)
	return repeat(ctx, c.newAttempts(req), m, req)
}

// repeat makes the attempts of a call that is not a stream. The request is the same in all of them.
func repeat[Req, Resp proto.Message](ctx context.Context, a *attempts, m method[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := a.client.withDeadline(ctx)
	defer cancel()
	for {
		resp, err := attempt(ctx, a, m, req)
		if err == nil {
			a.succeeded()
			return resp, nil
		}
		if !a.again(ctx, err) {
			return resp, a.failed(ctx, err)
		}
	}
}

func attempt[Req, Resp proto.Message](ctx context.Context, a *attempts, m method[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := a.next(ctx)
	defer cancel()
	resp, err := m(ctx, req)
	if err == nil {
		err = a.refused(resp)
	}
	return resp, err
}
