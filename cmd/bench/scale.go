package main

import (
	"context"
	"fmt"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// Sizes of the stores that are compared, in files.
const (
	smallStore = 10_000
	largeStore = 1_000_000
)

// scaleCallers is how many call at once where stores are compared.
const scaleCallers = 8

// Names of those stores as subjects.
const (
	nameSmallStore     = "10^4 files"
	nameLargeStore     = "10^6 files"
	nameOne            = "1 namespace"
	nameManyNamespaces = "10^5 namespaces"
)

// runScale compares a store with one that has a hundred times the files. Calls are to any of the namespaces.
func runScale(ctx context.Context, b *bench) error {
	var subjects []scaled
	for _, s := range []struct {
		name  string
		files int
	}{{nameSmallStore, smallStore}, {nameSmallStore + trial.Again, smallStore}, {nameLargeStore, largeStore}} {
		m, err := b.startOn(ctx, filesFixture(s.files))
		if err != nil {
			return err
		}
		namespaces := s.files / scaleNamespaceFiles
		place := b.picker(namespaces)
		file := b.picker(scaleNamespaceFiles)
		subjects = append(subjects, scaled{
			service: m, name: s.name,
			view: func(caller int) (namespace, path string) { return scaleNamespace(place(caller)), pathOf(file(caller)) },
			create: func(caller, n int) (namespace, path string) {
				return scaleNamespace(place(caller)), newFile(pathDirectory(file(caller)), caller, n)
			},
		})
	}
	return b.compareScaled(ctx, caseScaleView, caseScaleCreate, subjects)
}

// runNamespaces compares a store of one namespace with one of many, which hold the same files in as many places.
func runNamespaces(ctx context.Context, b *bench) error {
	var subjects []scaled
	for _, name := range []string{nameOne, nameOne + trial.Again} {
		m, err := b.startOn(ctx, directoriesFixture())
		if err != nil {
			return err
		}
		place := b.picker(manyNamespaces)
		subjects = append(subjects, scaled{
			service: m, name: name,
			view: func(caller int) (namespace, path string) {
				return oneNamespace, directoryOf(place(caller)) + "/" + noteName
			},
			create: func(caller, n int) (namespace, path string) {
				return oneNamespace, newFile(directoryOf(place(caller)), caller, n)
			},
		})
	}
	m, err := b.startOn(ctx, namespacesFixture())
	if err != nil {
		return err
	}
	place := b.picker(manyNamespaces)
	subjects = append(subjects, scaled{
		service: m, name: nameManyNamespaces,
		view: func(caller int) (namespace, path string) {
			return manyNamespace(place(caller)), "/memories/" + noteName
		},
		create: func(caller, n int) (namespace, path string) {
			return manyNamespace(place(caller)), newFile("/memories", caller, n)
		},
	})
	return b.compareScaled(ctx, caseNamespacesView, caseNamespacesCreate, subjects)
}

// scaled is a store of some size.
type scaled struct {
	*service
	name string
	// view returns which file a caller views next.
	view func(caller int) (namespace, path string)
	// create returns which file a caller makes as its nth.
	create func(caller, n int) (namespace, path string)
}

// newFile is the path of the nth file that a caller makes.
func newFile(directory string, caller, n int) string {
	return fmt.Sprintf("%s/new-%d-%d.md", directory, caller, n)
}

func (b *bench) compareScaled(ctx context.Context, viewName, createName string, subjects []scaled) error {
	views := trial.Case{Name: viewName, Callers: scaleCallers}
	creates := trial.Case{Name: createName, Callers: scaleCallers}
	for _, s := range subjects {
		views.Subjects = append(views.Subjects, s.subject(s.name, func(ctx context.Context, caller int) error {
			namespace, path := s.view(caller)
			return s.service.view(ctx, namespace, path)
		}))
		var next [maxCallers]int
		creates.Subjects = append(creates.Subjects, b.traced(s.service, s.name, func(ctx context.Context, caller int) error {
			n := next[caller]
			next[caller]++
			namespace, path := s.create(caller, n)
			return s.service.create(ctx, namespace, path, textOf(n))
		}))
	}
	if err := b.compare(ctx, views); err != nil {
		return err
	}
	return b.compare(ctx, creates)
}
