package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Names of peers as subjects.
const (
	nameEtcd     = "etcd"
	nameRedis    = "Redis"
	namePostgres = "PostgreSQL"
	nameTool     = "TypeScript tool"
)

// peer is another store that runs. Both of its functions are called by many at once.
type peer struct {
	name string
	// get reads a file.
	get func(ctx context.Context, path string) error
	// put makes a file, and returns when it is durable.
	put func(ctx context.Context, path, text string) error
	// server is what is counted of; nil: nothing.
	server trial.Server
}

// errNotInstalled says that a peer is not here.
var errNotInstalled = errors.New("it is not installed")

// startPeers starts those stores that are installed, and notes those that are not.
func (b *bench) startPeers(ctx context.Context) ([]*peer, error) {
	var peers []*peer
	for _, candidate := range []struct {
		name  string
		start func(context.Context) (*peer, error)
	}{{nameEtcd, b.startEtcd}, {nameRedis, b.startRedis}, {namePostgres, b.startPostgres}} {
		p, err := candidate.start(ctx)
		if errors.Is(err, errNotInstalled) {
			b.missing(candidate.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", candidate.name, err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// startPeer starts the process of a peer, and waits until ready says that it serves.
func (b *bench) startPeer(
	ctx context.Context, name, dir string, command []string, ready func(context.Context) error,
) (*server, error) {
	process, err := child.Start(child.Options{Name: name, Dir: b.dir, Command: command})
	if err != nil {
		return nil, err
	}
	b.onStop(process.Stop)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.Await(ctx, ready); err != nil {
		return nil, err
	}
	return &server{Process: process, data: dir}, nil
}

// versionNumber is what a version looks like in what programs say about themselves.
var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// version notes the version of a peer.
func (b *bench) version(ctx context.Context, name string, command ...string) error {
	output, err := exec.CommandContext(ctx, command[0], command[1:]...).Output() //nolint:gosec // what is compared
	if err != nil {
		return fmt.Errorf("run %s: %w", command[0], err)
	}
	b.report.Versions[name] = versionNumber.FindString(string(output))
	return nil
}

// subject is the peer as a subject.
func (p *peer) subject(call func(ctx context.Context, caller int) error) trial.Subject {
	return trial.Subject{Name: p.name, Other: true, Run: trial.Calls(call), Server: p.server}
}

// fill makes files, numbered from 0.
func (p *peer) fill(ctx context.Context, count int) error {
	for n := range count {
		if err := p.put(ctx, pathOf(n), textOf(n)); err != nil {
			return fmt.Errorf("fill %s: %w", p.name, err)
		}
	}
	return nil
}

// creator returns a call that creates files, as service.creator does: the namespace is a part of the key.
func (p *peer) creator(prefix string) func(ctx context.Context, caller int) error {
	var next [maxCallers]int
	return func(ctx context.Context, caller int) error {
		n := next[caller]
		next[caller]++
		path := fmt.Sprintf("%s/caller-%d/%d%s", prefix, caller, n/namespaceFiles, pathOf(n%namespaceFiles))
		return p.put(ctx, path, textOf(n))
	}
}

// installed returns the path of a program.
func installed(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: there is no %s", errNotInstalled, name)
	}
	return path, err
}

// await asks whether a peer serves once there is something to connect to, since clients wait before they try again.
func await(address string, ask func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return errors.Join(conn.Close(), ask(ctx))
	}
}

// awaitPut is await with a put.
func awaitPut(address string, put func(ctx context.Context, path, text string) error) func(context.Context) error {
	return await(address, func(ctx context.Context) error { return put(ctx, "ready", "") })
}
