package rpc

import (
	"context"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// How many namespaces ListNamespaces returns.
const (
	defaultNamespaces = 100
	maxNamespaces     = 1000
)

type adminService struct {
	memoryv1.UnimplementedAdminServiceServer
	memory   *memory.Memory
	backups  *backups
	activity ActivityOptions
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
	event := Asked(req)
	namespace, err := s.updateNamespace(ctx, req)
	if err == nil {
		event.Outcome, event.Revision = audit.OutcomeOK, namespace.Revision
	}
	audit.FromContext(ctx).Add(event)
	if err != nil {
		return nil, StatusError(err)
	}
	return &memoryv1.UpdateNamespaceResponse{Namespace: toNamespace(namespace)}, nil
}

func (s *adminService) updateNamespace(ctx context.Context, req *memoryv1.UpdateNamespaceRequest) (
	memory.Namespace, error,
) {
	if err := checkRequest(req); err != nil {
		return memory.Namespace{}, err
	}
	settings, err := fromSettings(req.GetSettings())
	if err != nil {
		return memory.Namespace{}, err
	}
	change := memory.SettingsChange{Settings: settings, Names: req.GetUpdateMask().GetPaths()}
	return s.memory.UpdateSettings(ctx, req.GetNamespace(), change, req.GetRequestId())
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
	namespaces, next, err := s.memory.Namespaces(ctx, visible(auth.FromContext(ctx)), after, limit)
	if err != nil {
		return nil, StatusError(err)
	}
	resp := &memoryv1.ListNamespacesResponse{NextPageToken: encodePageToken(next)}
	for _, n := range namespaces {
		resp.Namespaces = append(resp.Namespaces, toNamespace(n))
	}
	return resp, nil
}

// visible is what a caller sees of the namespaces: those on which it has a right.
func visible(p *auth.Principal) memory.NamespaceFilter {
	filter := memory.NamespaceFilter{Match: p.MayAny}
	for _, r := range p.Ranges() {
		filter.Ranges = append(filter.Ranges, memory.NamespaceRange{Prefix: r.Prefix, Exact: r.Exact})
	}
	return filter
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

// PlanExpiry implements memoryv1.AdminServiceServer.
func (s *adminService) PlanExpiry(ctx context.Context, req *memoryv1.PlanExpiryRequest) (
	*memoryv1.PlanExpiryResponse, error,
) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	query, err := expiryQuery(req)
	if err != nil {
		return nil, StatusError(err)
	}
	files, next, err := s.memory.PlanExpiry(ctx, req.GetNamespace(), query)
	if err != nil {
		return nil, StatusError(err)
	}
	resp := &memoryv1.PlanExpiryResponse{NextPageToken: encodePageToken(next)}
	for _, f := range files {
		resp.Files = append(resp.Files, &memoryv1.ExpiringFile{
			Entry: toEntry(&f.Entry), ViewedTime: toTimestamp(f.Viewed), ExpireTime: toTimestamp(f.Expires),
		})
	}
	return resp, nil
}

func expiryQuery(req *memoryv1.PlanExpiryRequest) (q memory.ExpiryQuery, err error) {
	if q.UnreadAfter, err = fromDuration("expire_unread_after", req.GetExpireUnreadAfter()); err != nil {
		return q, err
	}
	if t := req.GetExpireBefore(); t != nil {
		if t.CheckValid() != nil {
			return q, invalid("expire_before", "expire_before must be a time of the years 1 to 9999")
		}
		q.Before = t.AsTime()
	}
	if q.Limit, err = pageSize(req.GetPageSize(), maxEntries, maxEntries); err != nil {
		return q, err
	}
	q.After, err = decodePageToken(req.GetPageToken())
	return q, err
}

// Screen implements memoryv1.AdminServiceServer.
func (s *adminService) Screen(ctx context.Context, req *memoryv1.ScreenRequest) (*memoryv1.ScreenResponse, error) {
	if err := checkRequest(req); err != nil {
		return nil, StatusError(err)
	}
	after, err := decodePageToken(req.GetPageToken())
	if err != nil {
		return nil, StatusError(err)
	}
	page, err := s.memory.ScreenFiles(ctx, req.GetNamespace(), after)
	if err != nil {
		return nil, StatusError(err)
	}
	resp := &memoryv1.ScreenResponse{FileCount: int64(page.Files), NextPageToken: encodePageToken(page.Next)}
	for _, f := range page.Secrets {
		resp.Findings = append(resp.Findings, &memoryv1.SecretFinding{Path: f.Path, Rule: f.Rule, Line: f.Line})
	}
	return resp, nil
}
