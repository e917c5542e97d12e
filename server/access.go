package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// access is what a method needs of its caller. The zero value lets nobody call it.
type access struct {
	need  need
	right auth.Right // for needRight and needEverywhere
	// viewing: a request that only views needs auth.Read instead.
	viewing bool
	// audited: the audit trail has a line for every call, whatever became of it.
	audited bool
}

// need is the kind of what is needed.
type need uint8

const (
	needMore       need = iota // than anybody has
	needNothing                // not even to say who one is
	needPrincipal              // to say who one is
	needAnyRight               // any right in the namespace of the request
	needRight                  // a right in the namespace of the request
	needEverywhere             // a right in all namespaces
)

var (
	reading   = access{need: needRight, right: auth.Read}
	writing   = access{need: needRight, right: auth.Write, audited: true}
	executing = access{need: needRight, right: auth.Write, viewing: true} // commands; those that write are audited
	governing = access{need: needRight, right: auth.Admin, audited: true}
)

// methods says what each method needs. A method that is not here cannot be called.
var methods = map[string]access{
	memoryv1.MemoryService_View_FullMethodName:       reading,
	memoryv1.MemoryService_Create_FullMethodName:     writing,
	memoryv1.MemoryService_StrReplace_FullMethodName: writing,
	memoryv1.MemoryService_Insert_FullMethodName:     writing,
	memoryv1.MemoryService_Delete_FullMethodName:     writing,
	memoryv1.MemoryService_Rename_FullMethodName:     writing,
	memoryv1.MemoryService_Execute_FullMethodName:    executing,
	memoryv1.MemoryService_Apply_FullMethodName:      executing,

	memoryv1.FileService_Put_FullMethodName:  writing,
	memoryv1.FileService_Get_FullMethodName:  reading,
	memoryv1.FileService_List_FullMethodName: reading,
	memoryv1.FileService_Pin_FullMethodName:  writing,

	memoryv1.AdminService_GetNamespace_FullMethodName:    {need: needAnyRight},
	memoryv1.AdminService_UpdateNamespace_FullMethodName: governing,
	memoryv1.AdminService_ListNamespaces_FullMethodName:  {need: needPrincipal}, // who sees those it has a right in
	memoryv1.AdminService_DeleteNamespace_FullMethodName: governing,
	memoryv1.AdminService_PlanExpiry_FullMethodName:      reading,
	memoryv1.AdminService_Screen_FullMethodName:          reading,
	// It tells of the calls of all.
	memoryv1.AdminService_GetActivity_FullMethodName: {need: needEverywhere, right: auth.Admin},
	// A backup has the contents of all memories.
	memoryv1.AdminService_Backup_FullMethodName: {
		need: needEverywhere, right: auth.Admin | auth.Read, audited: true,
	},
}

// services says what all methods of a service that is not memoryd's own need.
var services = map[string]access{
	healthpb.Health_ServiceDesc.ServiceName:                    {need: needNothing},
	reflectionpb.ServerReflection_ServiceDesc.ServiceName:      {need: needPrincipal},
	reflectionalphapb.ServerReflection_ServiceDesc.ServiceName: {need: needPrincipal},
	// It tells the addresses of all callers.
	channelzpb.Channelz_ServiceDesc.ServiceName: {need: needEverywhere, right: auth.Admin},
}

// accessTo returns what a method needs, such as "/memoryd.v1.MemoryService/View".
func accessTo(fullMethod string) access {
	if a, ok := methods[fullMethod]; ok {
		return a
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return services[service]
}

// namespaced tells whether what is needed depends on the request.
func (a access) namespaced() bool { return a.need == needAnyRight || a.need == needRight }

// check tells whether a caller has what is needed for a request. Its errors do not depend on what exists.
func (a access) check(p *auth.Principal, namespace string, req any) error {
	permitted := false
	switch a.need {
	case needNothing, needPrincipal:
		permitted = true
	case needAnyRight:
		permitted = p.MayAny(namespace)
	case needRight:
		permitted = p.May(a.right, namespace)
		if !permitted && a.right == auth.Write && p.May(auth.Read, namespace) {
			if permitted = a.viewing && !rpc.Writes(req); !permitted {
				return rpc.ErrNamespaceReadOnly
			}
		}
	case needEverywhere:
		permitted = p.MayEverywhere(a.right)
	case needMore:
	}
	if !permitted {
		return rpc.ErrNotPermitted
	}
	return nil
}

// authorize refuses a request that its caller may not make.
func authorize(ctx context.Context, fullMethod string, req any) error {
	subject, err := rpc.SubjectOf(req)
	trail := audit.FromContext(ctx)
	trail.SetNamespace(subject.Namespace)
	trail.SetSession(subject.Session)
	trail.SetRequestID(subject.RequestID)
	if err != nil {
		return err
	}
	err = accessTo(fullMethod).check(auth.FromContext(ctx), subject.Namespace, req)
	if err != nil {
		trail.Add(rpc.Asked(req))
	}
	return rpc.StatusError(err)
}

func authorizeUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if err := authorize(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil && accessTo(info.FullMethod).viewing {
		auditFailure(audit.FromContext(ctx), req)
	}
	return resp, err
}

// auditFailure tells the audit trail of a command that was to change something and failed before anything told of it.
// The methods that always do have a line for every call.
func auditFailure(trail *audit.Trail, req any) {
	if !trail.HasEvents() && rpc.Writes(req) {
		trail.Add(rpc.Asked(req))
	}
}

func authorizeStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if accessTo(info.FullMethod).namespaced() {
		return handler(srv, &authorizedStream{ServerStream: ss, method: info.FullMethod})
	}
	if err := authorize(ss.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return handler(srv, ss)
}

// authorizedStream is a stream whose first message says which namespace the call is about. Nothing is received after
// it, and nothing is sent, unless the caller may make the call.
type authorizedStream struct {
	grpc.ServerStream
	method    string
	permitted bool
}

// RecvMsg implements grpc.ServerStream.
func (s *authorizedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.permitted {
		return err
	}
	if err := authorize(s.Context(), s.method, m); err != nil {
		return err
	}
	s.permitted = true
	return nil
}

// SendMsg implements grpc.ServerStream.
func (s *authorizedStream) SendMsg(m any) error {
	if !s.permitted {
		return rpc.StatusError(rpc.ErrNotPermitted)
	}
	return s.ServerStream.SendMsg(m)
}
