package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Names of subjects.
const (
	nameMemoryd = "memoryd"
	nameControl = nameMemoryd + trial.Again
)

// startMemoryd starts a memoryd on an empty directory, as its users run it: with metrics and a log, and with the
// settings that it has by itself but for args.
func (b *bench) startMemoryd(ctx context.Context, args ...string) (*service, error) {
	_, dir, err := b.newDir(nameMemoryd)
	if err != nil {
		return nil, err
	}
	return b.startMemorydOn(ctx, dir, args...)
}

// startMemorydOn starts a memoryd on a directory.
func (b *bench) startMemorydOn(ctx context.Context, dir string, args ...string) (*service, error) {
	b.started++
	name := fmt.Sprintf("%s-%d", nameMemoryd, b.started)
	return b.startService(ctx, name, dir, append([]string{b.options.memoryd, "--data", dir}, args...))
}

// startService starts a server that takes the flags --listen and --http besides. It ends with the group, if not before.
func (b *bench) startService(ctx context.Context, name, dir string, command []string) (*service, error) {
	begin := time.Now()
	listen, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	http, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	command = append(command, "--listen", listen, "--http", http)
	process, err := child.Start(child.Options{Name: name, Dir: b.dir, Command: command})
	if err != nil {
		return nil, err
	}
	b.onStop(process.Stop)
	if err := awaitServing(ctx, process, listen); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	c, err := client.Dial(listen)
	if err != nil {
		return nil, err
	}
	b.onStop(c.Close)
	return &service{
		server: server{Process: process, data: dir, metrics: "http://" + http + "/metrics"}, Client: c, took: took,
	}, nil
}

// startTwins starts two of the same configuration.
func (b *bench) startTwins(ctx context.Context) (m, control *service, err error) {
	if m, err = b.startMemoryd(ctx); err != nil {
		return nil, nil, err
	}
	control, err = b.startMemoryd(ctx)
	return m, control, err
}

// awaitServing waits until a server says that it serves.
func awaitServing(ctx context.Context, process *child.Process, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return process.Await(ctx, await(address, func(ctx context.Context) error { return checkHealth(ctx, address) }))
}

func checkHealth(ctx context.Context, address string) (err error) {
	conn, err := dial(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("health is %s", resp.GetStatus())
	}
	return nil
}

// dial makes a connection of gRPC with nothing around it.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
}
