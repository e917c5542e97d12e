package main

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

// startEtcd starts a cluster of one etcd. It is called by its generated client, which costs less than its own.
func (b *bench) startEtcd(ctx context.Context) (*peer, error) {
	program, err := installed(b.options.etcd)
	if err != nil {
		return nil, err
	}
	if err := b.version(ctx, nameEtcd, program, "--version"); err != nil {
		return nil, err
	}
	name, dir, err := b.newDir("etcd")
	if err != nil {
		return nil, err
	}
	clients, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	peers, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	conn, err := dial(clients)
	if err != nil {
		return nil, err
	}
	b.onStop(conn.Close)
	kv := pb.NewKVClient(conn)
	get := func(ctx context.Context, path string) error {
		resp, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(path)}) // linearizable
		if err != nil {
			return err
		}
		if len(resp.GetKvs()) != 1 {
			return fmt.Errorf("etcd has %d of %s", len(resp.GetKvs()), path)
		}
		return nil
	}
	put := func(ctx context.Context, path, text string) error {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(path), Value: []byte(text)})
		return err
	}
	s, err := b.startPeer(ctx, name, dir, []string{
		program, "--name", "bench", "--data-dir", dir, "--log-level", "error",
		"--listen-client-urls", "http://" + clients, "--advertise-client-urls", "http://" + clients,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers,
		"--initial-cluster", "bench=http://" + peers, "--quota-backend-bytes", "8589934592",
	}, awaitPut(clients, put))
	if err != nil {
		return nil, err
	}
	return &peer{name: nameEtcd, get: get, put: put, server: s}, nil
}
