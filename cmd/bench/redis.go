package main

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

// startRedis starts a Redis that has on the disk what it says it has.
func (b *bench) startRedis(ctx context.Context) (*peer, error) {
	program, err := installed("redis-server")
	if err != nil {
		return nil, err
	}
	if err := b.version(ctx, nameRedis, program, "--version"); err != nil {
		return nil, err
	}
	name, dir, err := b.newDir("redis")
	if err != nil {
		return nil, err
	}
	address, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: address, PoolSize: maxCallers, DisableIdentity: true})
	b.onStop(c.Close)
	get := func(ctx context.Context, path string) error { return c.Get(ctx, path).Err() }
	put := func(ctx context.Context, path, text string) error { return c.Set(ctx, path, text, 0).Err() }
	s, err := b.startPeer(ctx, name, dir, []string{
		program, "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, awaitPut(address, put))
	if err != nil {
		return nil, err
	}
	return &peer{name: nameRedis, get: get, put: put, server: s}, nil
}
