package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Names of the reference as a subject.
const (
	nameEcho = "bare RPC"
	nameRaw  = "raw file"
)

// startReference starts a reference that answers as m does.
func (b *bench) startReference(ctx context.Context, m *service) (*service, error) {
	const namespace, path = "bench/reference", "/memories/notes-0/note-0.md"
	create, err := m.Create(ctx, &memoryv1.CreateRequest{Namespace: namespace, Path: path, FileText: textOf(0)})
	if err := failed(create, err); err != nil {
		return nil, err
	}
	view, err := m.View(ctx, &memoryv1.ViewRequest{Namespace: namespace, Path: path})
	if err := failed(view, err); err != nil {
		return nil, err
	}
	name, dir, err := b.newDir("reference")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{self, "reference", "--raw", filepath.Join(dir, "raw")}
	for flag, message := range map[string]proto.Message{"--view": view, "--create": create} {
		file := filepath.Join(b.dir, name+flag)
		if err := writeMessage(file, message); err != nil {
			return nil, err
		}
		command = append(command, flag, file)
	}
	return b.startService(ctx, name, dir, command)
}

// other is a subject that is no memoryd.
func other(s trial.Subject) trial.Subject {
	s.Other = true
	return s
}

func writeMessage(file string, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, data, 0o600)
}
