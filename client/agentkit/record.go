package agentkit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const recordPrefix = RecordsDir + "/session-"

// record is what is known of a session that is not closed. It is a file of the namespace, so that it changes in the
// same transactions as the progress log. The model can write it, so nothing in it is trusted: what it shows is put
// between tags and cut like any other memory, and it can be about no other session than the one of its path.
type record struct {
	// Session is the name of the session.
	Session string `json:"session"`
	// Began is the revision at which the session began. It is 0 in the first version of the file, whose own it is.
	Began int64 `json:"began,omitempty"`
	// Shown is what Session.Context is made of, each time with the same result; nil until memory was read.
	Shown []block `json:"shown,omitzero"`

	path     string
	revision int64     // of the file
	made     time.Time // the file, which what is written into it later does not change
	spoiled  bool      // nobody can tell which session of its name it is of
}

// recordPath returns the path of the record of a session, whose name can have any characters.
func recordPath(session string) string { return recordStem(session) + ".json" }

// recordStem is what all paths begin with that the record of a session can have.
func recordStem(session string) string {
	sum := sha256.Sum256([]byte(session))
	return recordPrefix + hex.EncodeToString(sum[:])
}

// isOf tells whether the record is that of a session.
func (r record) isOf(session string) bool { return strings.HasPrefix(r.path, recordStem(session)) }

// isRecord tells whether a path is RecordsDir or below it.
func isRecord(path string) bool { return path == RecordsDir || strings.HasPrefix(path, RecordsDir+"/") }

func (r record) encode() []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // which would make 6 bytes of one
	if err := e.Encode(r); err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return text.Bytes()
}

// makeRoom returns the command that moves a file aside which is in the place of RecordsDir, if there is one among the
// entries that were listed there.
func (p *Project) makeRoom(ctx context.Context, entries []*memoryv1.Entry) ([]*memoryv1.ApplyCommand, error) {
	i := slices.IndexFunc(entries, func(e *memoryv1.Entry) bool { return e.GetPath() == RecordsDir })
	if i < 0 {
		return nil, nil
	}
	aside, err := p.aside(ctx, RecordsDir, entries[i].GetRevision())
	return []*memoryv1.ApplyCommand{aside}, err
}

// newRecord returns the record of a session that begins, at another path than its own if that is a directory.
func (p *Project) newRecord(ctx context.Context, session string, entries []*memoryv1.Entry) (r record, err error) {
	r = record{Session: session, path: recordPath(session)}
	if slices.ContainsFunc(entries, func(e *memoryv1.Entry) bool {
		return e.GetPath() == r.path && e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY
	}) {
		r.path, err = p.unusedPath(ctx, r.path)
	}
	return r, err
}

// record reads the record at a path. ok is false where there is no file.
func (p *Project) record(ctx context.Context, recordPath string) (_ record, ok bool, err error) {
	if found, _, err := p.stat(ctx, recordPath); err != nil || found != isFile {
		return record{}, false, err
	}
	var content bytes.Buffer
	header, err := p.client.Get(ctx, &memoryv1.GetRequest{Namespace: p.namespace, Path: recordPath}, &content)
	if err != nil {
		return record{}, false, err
	}
	switch err := refusalOf(header.GetResult()); {
	case hasReason(err, memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND):
		return record{}, false, nil
	case err != nil:
		return record{}, false, err
	}
	r := decodeRecord(content.Bytes(), recordPath, header.GetEntry().GetRevision())
	r.made = header.GetEntry().GetCreatedTime().AsTime()
	return r, true, nil
}

// decodeRecord reads a record, of whatever the model has made of the file.
func decodeRecord(content []byte, recordPath string, revision int64) record {
	r := record{path: recordPath}
	if json.Unmarshal(content, &r) != nil || checkName(r.Session) != nil || !r.isOf(r.Session) {
		r = record{Session: path.Base(recordPath), path: recordPath, spoiled: true}
	}
	for i, b := range r.Shown {
		if b.Lines != 0 {
			r.Shown[i].Lines = max(b.Lines, int64(len(b.lineTexts())-1))
		}
	}
	r.revision = revision
	if r.Began <= 0 || r.Began > revision {
		// The first version of a file has none. It may be that of a session that begins right now.
		r.spoiled = r.spoiled || !bytes.Equal(content, record{Session: r.Session}.encode())
		r.Began = revision
	}
	return r
}

// records reads the records of all sessions that are not closed, those that began last first, among the entries that
// were listed in RecordsDir.
func (p *Project) records(ctx context.Context, entries []*memoryv1.Entry) ([]record, error) {
	var records []record
	for _, e := range entries {
		if !strings.HasPrefix(e.GetPath(), recordPrefix) || path.Dir(e.GetPath()) != RecordsDir {
			continue
		}
		r, ok, err := p.record(ctx, e.GetPath())
		if err != nil {
			return nil, err
		}
		if ok {
			records = append(records, r)
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(b.Began, a.Began) })
	return records, nil
}

// keep puts what a session is shown on its record, and returns what is there in the end: that of another process with
// the same session may have come first. Its error has REASON_FILE_TOO_LARGE where the namespace takes no such file.
func (p *Project) keep(ctx context.Context, r record) ([]block, error) {
	resp, err := p.client.Put(ctx, &memoryv1.PutHeader{
		Namespace:  p.namespace,
		Session:    r.Session,
		Path:       r.path,
		IfRevision: &r.revision,
	}, bytes.NewReader(r.encode()))
	if err != nil {
		return nil, err
	}
	err = refusalOf(resp.GetResult())
	var refused *refusal
	switch {
	case err == nil:
		return r.Shown, nil
	case !errors.As(err, &refused) || !refused.overtaken():
		return nil, err
	}
	if now, ok, err := p.record(ctx, r.path); err != nil || ok && now.Shown != nil {
		return now.Shown, err
	}
	return r.Shown, nil // another session has begun and taken this one for cut off
}
