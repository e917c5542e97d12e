package agentkit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const recordPrefix = RecordsDir + "/session-"

// record is what is known of a session that is not closed. It is a file of the namespace, so that it changes in the
// same transactions as the progress log.
type record struct {
	// Session is the name of the session.
	Session string `json:"session"`
	// Began is the revision at which the session began. It is 0 in the first version of the file, whose own it is.
	Began int64 `json:"began,omitempty"`
	// Context is Session.Context; empty until it has been made.
	Context string `json:"context,omitempty"`

	path     string
	revision int64 // of the file
}

// recordPath returns the path of the record of a session, whose name can have any characters.
func recordPath(session string) string {
	sum := sha256.Sum256([]byte(session))
	return recordPrefix + hex.EncodeToString(sum[:]) + ".json"
}

func (r record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return text
}

// record reads the record at a path. ok is false where there is none.
func (p *Project) record(ctx context.Context, recordPath string) (_ record, ok bool, err error) {
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
	return decodeRecord(content.Bytes(), recordPath, header.GetEntry().GetRevision()), true, nil
}

// decodeRecord reads a record, of whatever the model has made of the file.
func decodeRecord(content []byte, recordPath string, revision int64) record {
	var r record
	if json.Unmarshal(content, &r) != nil || checkName(r.Session) != nil {
		r = record{Session: path.Base(recordPath)}
	}
	r.path, r.revision = recordPath, revision
	if r.Began <= 0 || r.Began > revision {
		r.Began = revision
	}
	return r
}

// records reads the records of all sessions that are not closed, those that began last first.
func (p *Project) records(ctx context.Context) ([]record, error) {
	entries, err := p.list(ctx, RecordsDir)
	if err != nil {
		return nil, err
	}
	var records []record
	for _, e := range entries {
		if !strings.HasPrefix(e.GetPath(), recordPrefix) || e.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE {
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

// keep puts the context of a session on its record, and returns the one that is there in the end: that of another
// process with the same session may have come first.
func (p *Project) keep(ctx context.Context, r record, text string) (string, error) {
	r.Context = text
	resp, err := p.client.Put(ctx, &memoryv1.PutHeader{
		Namespace:  p.namespace,
		Session:    r.Session,
		Path:       r.path,
		IfRevision: &r.revision,
	}, bytes.NewReader(r.encode()))
	if err != nil {
		return "", err
	}
	switch err := refusalOf(resp.GetResult()); {
	case err == nil:
		return text, nil
	case hasReason(err, memoryv1.Reason_REASON_FILE_TOO_LARGE):
		return "", fmt.Errorf("its %d bytes make a file that is too large for the namespace; set a smaller budget, or a "+
			"larger max_file_bytes: %w", len(text), err)
	case !hasReason(err, memoryv1.Reason_REASON_PRECONDITION_FAILED):
		return "", err
	}
	if now, ok, err := p.record(ctx, r.path); err != nil || ok && now.Context != "" {
		return now.Context, err
	}
	return text, nil // another session has begun and taken this one for cut off
}
