package memory

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

const (
	// directoriesPerFile is how many directories a namespace may have for each file of MaxFiles, so that empty
	// directories are no way around the limit.
	directoriesPerFile = 8
	// largestFiles is how many files the error of a quota names.
	largestFiles = 3
)

// checkFiles checks that a new file of a path, with the directories that it needs, is within the limits.
func (t *tree) checkFiles(p Path) *failure {
	limit := *t.settings.MaxFiles
	if n := t.get(Path{}).files; limit > 0 && n >= limit {
		return failFull(ReasonFileQuota, "Error: The memory is full: %d of %d files. Delete or merge files first.", n, limit)
	}
	return t.checkDirectories(p)
}

// checkDirectories checks that the directories that a new entry of a path needs are within the limit.
func (t *tree) checkDirectories(p Path) *failure {
	limit := directoriesPerFile * min(*t.settings.MaxFiles, math.MaxInt64/directoriesPerFile)
	missing := int64(0)
	for depth := 1; depth < p.depth(); depth++ {
		if t.get(p.ancestor(depth)) == nil {
			missing++
		}
	}
	root := t.get(Path{})
	n := root.entries - root.files
	if limit == 0 || missing == 0 || n+missing <= limit {
		return nil
	}
	return fail(ReasonFileQuota,
		"Error: The memory is full: %d of %d directories. Delete or merge directories first.", n, limit)
}

// checkSize checks that the files may have so many bytes more together; they may always have less.
func (t *tree) checkSize(more int64) *failure {
	limit := *t.settings.MaxTotalBytes
	used := t.get(Path{}).size
	if limit == 0 || more <= 0 || used+more <= limit {
		return nil
	}
	return failFull(ReasonSizeQuota, "Error: The memory is full: %s of %s used, this change needs %s more. "+
		"Delete or shorten files first.", formatSize(used), formatSize(limit), formatSize(more))
}

// failFull is a failure that nameLargest completes.
func failFull(reason Reason, format string, args ...any) *failure {
	f := fail(reason, format, args...)
	f.namesLargest = true
	return f
}

// nameLargest completes the failure of a quota with the largest files. They are read once the transaction is over,
// since other updates wait while it runs. Where they cannot be read, the failure says as much as it does already.
func (m *Memory) nameLargest(ctx context.Context, namespace string, err error) error {
	var f *failure
	if !errors.As(err, &f) || !f.namesLargest {
		return err
	}
	files, readErr := m.largest(ctx, namespace)
	if readErr != nil || len(files) == 0 {
		return err
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Path + " (" + formatSize(file.Size) + ")"
	}
	f.text += " Largest: " + strings.Join(names, ", ")
	return err
}

// largest are the largest files of a namespace, as it was at a revision.
type largest struct {
	created, revision int64 // of the namespace; one that was deleted and made again has revisions anew
	files             []Entry
}

// largest returns the largest files, the largest first; those of one size are in the order of their paths. All entries
// are read for that, so that one caller does it for all who are refused, and again when the namespace has changed.
func (m *Memory) largest(ctx context.Context, namespace string) ([]Entry, error) {
	recent := m.recent(namespace)
	select {
	case recent.looking <- struct{}{}:
		defer func() { <-recent.looking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var found largest
	err := m.view(ctx, namespace, func(t *tree) (err error) {
		found = largest{created: t.header.created, revision: t.header.revision}
		if found.created == recent.largest.created && found.revision == recent.largest.revision {
			found = recent.largest
			return nil
		}
		found.files, err = t.largest()
		return err
	})
	if err != nil {
		return nil, err
	}
	recent.largest = found
	return found.files, nil
}

func (t *tree) largest() (files []Entry, err error) {
	if t.header.deleting {
		return nil, nil
	}
	opts := kv.ScanOptions{Prefix: []byte{entryPrefix}, From: levelPrefix(Path{}, 1)}
	err = t.reader.Scan(opts, func(key, value []byte) error {
		n, err := decodeNode(key, value)
		if err != nil || n.dir || len(files) == largestFiles && n.size < files[largestFiles-1].Size {
			return err
		}
		file := n.entry(keyPath(key))
		i, _ := slices.BinarySearchFunc(files, file, compareLargest)
		files = slices.Insert(files, i, file)
		files = files[:min(len(files), largestFiles)]
		return nil
	})
	return files, err
}

// compareLargest orders files from the largest to the smallest.
func compareLargest(a, b Entry) int {
	if a.Size != b.Size {
		if a.Size > b.Size {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Path, b.Path)
}
