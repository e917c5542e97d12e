package agentkit

import (
	"context"
	"slices"
	"time"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// list returns all entries below a directory, none where there is no such directory.
func (p *Project) list(ctx context.Context, dir string) ([]*memoryv1.Entry, error) {
	var entries []*memoryv1.Entry
	for token, first := "", true; first || token != ""; first = false {
		resp, err := p.client.List(ctx, &memoryv1.ListRequest{Namespace: p.namespace, Path: dir, PageToken: token})
		if err != nil {
			return nil, err
		}
		switch err := refusalOf(resp.GetResult()); {
		case hasReason(err, memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND):
			return entries, nil
		case err != nil:
			return nil, err
		}
		entries = append(entries, resp.GetEntries()...)
		token = resp.GetNextPageToken()
	}
	return entries, nil
}

// kind is what there is at a path.
type kind int

const (
	missing kind = iota
	isFile
	isDirectory
)

// stat returns what there is at a path, and the revision of a file.
func (p *Project) stat(ctx context.Context, path string) (k kind, revision int64, err error) {
	resp, err := p.client.List(ctx, &memoryv1.ListRequest{Namespace: p.namespace, Path: path, PageSize: 1})
	if err != nil {
		return missing, 0, err
	}
	switch err := refusalOf(resp.GetResult()); {
	case hasReason(err, memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND):
		return missing, 0, nil
	case err != nil:
		return missing, 0, err
	}
	// Of a file, List lists the file itself; of a directory, what is below.
	if entries := resp.GetEntries(); len(entries) == 1 && entries[0].GetPath() == path {
		return isFile, entries[0].GetRevision(), nil
	}
	return isDirectory, 0, nil
}

// changedSince returns the files that have changed since a revision, in byte order.
func (p *Project) changedSince(ctx context.Context, revision int64) ([]string, error) {
	entries, err := p.list(ctx, root)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_FILE && e.GetRevision() > revision &&
			!isRecord(e.GetPath()) {
			paths = append(paths, e.GetPath())
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// anyMadeBy tells whether there is a file of memory that was there at a time. That is the service's word, unlike a
// record.
func (p *Project) anyMadeBy(ctx context.Context, t time.Time) (bool, error) {
	entries, err := p.list(ctx, root)
	return slices.ContainsFunc(entries, func(e *memoryv1.Entry) bool {
		return e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_FILE && !isRecord(e.GetPath()) &&
			!e.GetCreatedTime().AsTime().After(t)
	}), err
}
