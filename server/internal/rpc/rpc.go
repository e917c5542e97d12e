// Package rpc is the gRPC services of memoryd. They are thin: a request is checked, given to package memory, and what
// comes back is turned into messages. Errors become statuses in one place, StatusError.
//
// Two faults of a caller are answered by gRPC itself, before this package sees the call, and so without an ErrorInfo:
// a message above the size limit (RESOURCE_EXHAUSTED), and one that cannot be decoded, such as a string field that is
// not UTF-8 (INTERNAL).
package rpc

import (
	"context"

	"google.golang.org/grpc"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Recorder counts what the commands came to. Its methods are called by many goroutines at once, with values of small
// fixed sets.
type Recorder interface {
	// Command notes a command that was answered: its name, and why it failed or "ok". The name is "invalid" where
	// the input of Execute holds no command.
	Command(name, reason string)
	// Repaired notes a kind of slip that was put right in the input of Execute.
	Repaired(kind string)
}

// Options are the options of Register.
type Options struct {
	// Memory executes the commands. Required.
	Memory *memory.Memory
	// Backuper makes backups; nil refuses to.
	Backuper kv.Backuper
	// Recorder counts the commands; nil counts nothing.
	Recorder Recorder
	// Activity is what GetActivity tells of.
	Activity ActivityOptions
}

// ServiceNames returns the full names of the services that Register adds.
func ServiceNames() []string {
	return []string{
		memoryv1.MemoryService_ServiceDesc.ServiceName,
		memoryv1.FileService_ServiceDesc.ServiceName,
		memoryv1.AdminService_ServiceDesc.ServiceName,
	}
}

// Register adds the services to a gRPC server.
func Register(registrar grpc.ServiceRegistrar, opts Options) {
	e := executor{memory: opts.Memory, recorder: opts.Recorder}
	if e.recorder == nil {
		e.recorder = noRecorder{}
	}
	memoryv1.RegisterMemoryServiceServer(registrar, &memoryService{executor: e})
	memoryv1.RegisterFileServiceServer(registrar, &fileService{executor: e})
	memoryv1.RegisterAdminServiceServer(registrar, &adminService{
		memory: opts.Memory, backups: newBackups(opts.Backuper), activity: opts.Activity,
	})
}

// executor is what the services that run commands have in common.
type executor struct {
	memory   *memory.Memory
	recorder Recorder
}

// do checks a request and runs a command in its namespace. Its errors are statuses.
func (e executor) do(ctx context.Context, req namespaced, cmd memory.Command, c conditions) (memory.Result, error) {
	if err := checkRequest(req); err != nil {
		return memory.Result{}, StatusError(err)
	}
	var requestID string
	if r, ok := req.(recorded); ok {
		requestID = r.GetRequestId()
	}
	call, err := c.call(requestID)
	if err != nil {
		return memory.Result{}, StatusError(err)
	}
	res, err := e.memory.Do(ctx, req.GetNamespace(), cmd, call)
	if err != nil {
		if cmd.Writes() {
			audit.FromContext(ctx).Add(commandEvent(cmd))
		}
		return memory.Result{}, StatusError(err)
	}
	if cmd.Writes() {
		audit.FromContext(ctx).Add(answeredEvent(cmd, res))
	}
	e.recorder.Command(cmd.Name(), ReasonLabel(memoryv1.Reason(res.Reason)))
	return res, nil
}

// commandEvent is what the audit trail says of a command, whatever became of it.
func commandEvent(cmd memory.Command) audit.Event {
	event := audit.Event{Command: cmd.Name()}
	paths := memory.Paths(cmd)
	if len(paths) > 0 {
		event.Path = paths[0]
	}
	if len(paths) > 1 {
		event.NewPath = paths[1]
	}
	return event
}

// answeredEvent is what the audit trail says of a command that was answered.
func answeredEvent(cmd memory.Command, res memory.Result) audit.Event {
	event := commandEvent(cmd)
	event.Outcome, event.Revision = ReasonLabel(memoryv1.Reason(res.Reason)), res.Revision
	return event
}

// noRecorder counts nothing.
type noRecorder struct{}

// Command implements Recorder.
func (noRecorder) Command(string, string) {}

// Repaired implements Recorder.
func (noRecorder) Repaired(string) {}
