package rpc

import (
	"context"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// How many namespaces ListNamespaces returns.
const (
	defaultNamespaces = 100
	maxNamespaces     = 1000
)

type adminService struct {
	memoryv1.UnimplementedAdminServiceServer
	memory  *memory.Memory
	backups *backups
}

var _ memoryv1.AdminServiceServer = (*adminService)(nil)

// GetNamespace implements memoryv1.AdminServiceServer.
func (s *adminService) GetNamespace(ctx context.Context, req *memoryv1.GetNamespaceRequest) (
	*memoryv1.GetNamespaceResponse, error,
) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	namespace, err := s.memory.Namespace(ctx, req.GetNamespace())
	if err != nil {
		return nil, StatusError(err)
	}
	return &memoryv1.GetNamespaceResponse{Namespace: toNamespace(namespace)}, nil
}

// UpdateNamespace implements memoryv1.AdminServiceServer.
func (s *adminService) UpdateNamespace(ctx context.Context, req *memoryv1.UpdateNamespaceRequest) (
	*memoryv1.UpdateNamespaceResponse, error,
) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	change := memory.SettingsChange{
		Settings: fromSettings(req.GetSettings()),
		Names:    req.GetUpdateMask().GetPaths(),
	}
	namespace, err := s.memory.UpdateSettings(ctx, req.GetNamespace(), change, req.GetRequestId())
	if err != nil {
		return nil, StatusError(err)
	}
	return &memoryv1.UpdateNamespaceResponse{Namespace: toNamespace(namespace)}, nil
}

// ListNamespaces implements memoryv1.AdminServiceServer.
func (s *adminService) ListNamespaces(ctx context.Context, req *memoryv1.ListNamespacesRequest) (
	*memoryv1.ListNamespacesResponse, error,
) {
	limit, err := pageSize(req.GetPageSize(), defaultNamespaces, maxNamespaces)
	if err != nil {
		return nil, StatusError(err)
	}
	after, err := decodePageToken(req.GetPageToken())
	if err != nil {
		return nil, StatusError(err)
	}
	if after != "" && memory.ValidateNamespace(after) != nil {
		return nil, StatusError(errPageToken())
	}
	namespaces, next, err := s.memory.Namespaces(ctx, after, limit)
	if err != nil {
		return nil, StatusError(err)
	}
	resp := &memoryv1.ListNamespacesResponse{NextPageToken: encodePageToken(next)}
	for _, n := range namespaces {
		resp.Namespaces = append(resp.Namespaces, toNamespace(n))
	}
	return resp, nil
}

// DeleteNamespace implements memoryv1.AdminServiceServer.
func (s *adminService) DeleteNamespace(ctx context.Context, req *memoryv1.DeleteNamespaceRequest) (
	*memoryv1.DeleteNamespaceResponse, error,
) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	if err := s.memory.DeleteNamespace(ctx, req.GetNamespace()); err != nil {
		return nil, LateStatusError(err)
	}
	return &memoryv1.DeleteNamespaceResponse{}, nil
}
