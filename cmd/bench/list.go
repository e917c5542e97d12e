package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

const listNamespace = "bench/list"

// Sizes of the directories that are listed.
const (
	fewFiles  = 20
	manyFiles = 2_000
)

// Names of the directories that are listed, as subjects.
const (
	nameFew   = "20 files"
	nameMany  = "2,000 files"
	nameBelow = "2,000 files below level two"
)

// runList compares views of directories. That with files below level two shows as many entries as the small one.
func runList(ctx context.Context, b *bench) error {
	m, control, err := b.startTwins(ctx)
	if err != nil {
		return err
	}
	few := func(n int) string { return fmt.Sprintf("/memories/few/note-%d.md", n) }
	many := func(n int) string { return fmt.Sprintf("/memories/many/note-%d.md", n) }
	below := func(n int) string {
		if n < fewFiles-2 {
			return fmt.Sprintf("/memories/below/note-%d.md", n)
		}
		return fmt.Sprintf("/memories/below/one/two/note-%d.md", n)
	}
	if err := control.fill(ctx, listNamespace, fewFiles, fileBytes, few); err != nil {
		return err
	}
	for _, fill := range []struct {
		count int
		path  func(int) string
	}{{fewFiles, few}, {manyFiles, many}, {manyFiles + fewFiles - 2, below}} {
		if err := m.fill(ctx, listNamespace, fill.count, fileBytes, fill.path); err != nil {
			return err
		}
	}
	list := func(s *service, path string) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error { return s.view(ctx, listNamespace, path) }
	}
	err = b.compare(ctx, trial.Case{Name: caseList, Callers: 1, Subjects: []trial.Subject{
		m.subject(nameFew, list(m, "/memories/few")), control.subject(nameFew+trial.Again, list(control, "/memories/few")),
		m.subject(nameMany, list(m, "/memories/many")), m.subject(nameBelow, list(m, "/memories/below")),
	}})
	if err != nil {
		return err
	}
	return b.listCold(ctx)
}

// Sizes of the files of a directory that is listed when nothing of it is in memory.
const (
	coldSmall = fileBytes
	coldLarge = 8 * fileBytes
)

// Names of those, as subjects.
const (
	nameColdSmall = "2,000 files of 2 KB"
	nameColdLarge = "2,000 files of 16 KB"
)

// listCold measures what a listing reads from the disk. Were it the contents too, larger files would make it more.
func (b *bench) listCold(ctx context.Context) error {
	result := trial.Result{Name: caseCold, Callers: 1}
	for _, subject := range []struct {
		name string
		size int
	}{{nameColdSmall, coldSmall}, {nameColdLarge, coldLarge}} {
		read, err := b.readByListing(ctx, subject.size)
		if errors.Is(err, errors.ErrUnsupported) {
			b.note("What a listing reads from the disk was not counted: it takes Linux.")
			return nil
		}
		if err != nil {
			return err
		}
		figures := trial.Figures{trial.ReadBytes: read}
		result.Subjects = append(result.Subjects, trial.SubjectResult{
			Name: subject.name, Slices: []trial.Figures{figures}, Figures: figures,
		})
	}
	b.report.Cases = append(b.report.Cases, result)
	return nil
}

func (b *bench) readByListing(ctx context.Context, size int) (float64, error) {
	m, err := b.startMemoryd(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.fill(ctx, listNamespace, manyFiles, size, pathIn("/memories/cold")); err != nil {
		return 0, err
	}
	if err := m.Stop(); err != nil {
		return 0, err
	}
	if err := evict(filepath.Join(m.data, databaseName)); err != nil {
		return 0, err
	}
	if m, err = b.startMemorydOn(ctx, m.data); err != nil {
		return 0, err
	}
	before, err := m.Usage()
	if err != nil {
		return 0, err
	}
	if err := m.view(ctx, listNamespace, "/memories/cold"); err != nil {
		return 0, err
	}
	after, err := m.Usage()
	if err != nil {
		return 0, err
	}
	if before == nil || after == nil {
		return 0, errors.ErrUnsupported
	}
	return after.ReadBytes - before.ReadBytes, nil
}

// pathIn returns the paths of files in a directory.
func pathIn(dir string) func(number int) string {
	return func(n int) string { return fmt.Sprintf("%s/note-%d.md", dir, n) }
}
