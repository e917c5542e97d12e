package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	memorydserver "github.com/seed-7f2870e1/memoryd/server"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// reference is what no memoryd can be faster than: a server with the same options of gRPC and nothing around its calls.
// Its View answers with the bytes of a View of memoryd, and its Create writes the file to a raw file.
type reference struct {
	memoryv1.UnimplementedMemoryServiceServer
	view   *memoryv1.ViewResponse
	create *memoryv1.CreateResponse
	raw    *rawFile
}

// View implements memoryv1.MemoryServiceServer.
func (r *reference) View(context.Context, *memoryv1.ViewRequest) (*memoryv1.ViewResponse, error) {
	return r.view, nil
}

// Create implements memoryv1.MemoryServiceServer.
func (r *reference) Create(_ context.Context, req *memoryv1.CreateRequest) (*memoryv1.CreateResponse, error) {
	if err := r.raw.append([]byte(req.GetFileText())); err != nil {
		return nil, err
	}
	return r.create, nil
}

// referenceFlags are those of the command that serves a reference, as startReference gives them.
type referenceFlags struct{ listen, http, view, create, raw string }

func newReferenceCommand() *cobra.Command {
	var f referenceFlags
	cmd := &cobra.Command{
		Use:    "reference",
		Short:  "Serve what memoryd is compared with: a bare RPC, and a raw file",
		Hidden: true, // bench runs it.
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return f.serve(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "address to serve on")
	flags.StringVar(&f.http, "http", "", "address for metrics")
	flags.StringVar(&f.view, "view", "", "file with the ViewResponse to answer with")
	flags.StringVar(&f.create, "create", "", "file with the CreateResponse to answer with")
	flags.StringVar(&f.raw, "raw", "", "file to write to")
	return cmd
}

func (f referenceFlags) serve(ctx context.Context) (err error) {
	r := &reference{view: &memoryv1.ViewResponse{}, create: &memoryv1.CreateResponse{}}
	if err := errors.Join(readMessage(f.view, r.view), readMessage(f.create, r.create)); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	if r.raw, err = openRawFile(f.raw, registry); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.raw.close()) }()
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	side := &http.Server{
		Addr: f.http, Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- side.ListenAndServe() }()
	s := grpc.NewServer(memorydserver.TransportOptions()...)
	memoryv1.RegisterMemoryServiceServer(s, r)
	healthpb.RegisterHealthServer(s, health.NewServer())
	defer context.AfterFunc(ctx, s.GracefulStop)()
	err = s.Serve(l)
	err = errors.Join(err, side.Close())
	if sideErr := <-failed; !errors.Is(sideErr, http.ErrServerClosed) {
		err = errors.Join(err, sideErr)
	}
	return err
}

func readMessage(file string, m proto.Message) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}
