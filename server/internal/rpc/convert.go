package rpc

import (
	"encoding/hex"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// answer is a response of the type R with the messages that nearly every one has, in one piece of memory.
type answer[R any] struct {
	response          R
	result            memoryv1.ToolResult
	content           memoryv1.Content
	text              memoryv1.Content_Text
	contents          [1]*memoryv1.Content
	entry             memoryv1.Entry
	created, modified timestamppb.Timestamp
}

// newAnswer returns a response, and the result and entry that belong into it.
func newAnswer[R any](res memory.Result) (response *R, result *memoryv1.ToolResult, entry *memoryv1.Entry) {
	a := &answer[R]{}
	a.result.IsError, a.result.Reason = res.IsError(), memoryv1.Reason(res.Reason)
	if len(res.Content) == 1 && res.Content[0].MediaType == "" {
		a.text.Text = res.Content[0].Text
		a.content.Block = &a.text
		a.contents[0] = &a.content
		a.result.Content = a.contents[:]
	} else {
		a.result.Content = toContents(res.Content)
	}
	if res.Entry == nil {
		return &a.response, &a.result, nil
	}
	fillEntry(&a.entry, &a.created, &a.modified, res.Entry)
	return &a.response, &a.result, &a.entry
}

func toResult(res memory.Result) *memoryv1.ToolResult {
	return &memoryv1.ToolResult{
		IsError: res.IsError(), Reason: memoryv1.Reason(res.Reason), Content: toContents(res.Content),
	}
}

func toContents(blocks []memory.Block) []*memoryv1.Content {
	contents := make([]*memoryv1.Content, len(blocks))
	for i, b := range blocks {
		contents[i] = toContent(b)
	}
	return contents
}

func toContent(b memory.Block) *memoryv1.Content {
	if b.MediaType != "" {
		image := &memoryv1.Image{MediaType: b.MediaType, Data: b.Data}
		return &memoryv1.Content{Block: &memoryv1.Content_Image{Image: image}}
	}
	return &memoryv1.Content{Block: &memoryv1.Content_Text{Text: b.Text}}
}

func toEntry(e *memory.Entry) *memoryv1.Entry {
	if e == nil {
		return nil
	}
	entry := &struct { // in one piece of memory
		entry             memoryv1.Entry
		created, modified timestamppb.Timestamp
	}{}
	fillEntry(&entry.entry, &entry.created, &entry.modified, e)
	return &entry.entry
}

// fillEntry makes a message of an entry, with what it is given for its times.
func fillEntry(entry *memoryv1.Entry, created, modified *timestamppb.Timestamp, e *memory.Entry) {
	entry.Path = e.Path
	entry.SizeBytes, entry.Lines = e.Size, e.Lines
	entry.CreatedTime, entry.ModifiedTime = fillTimestamp(created, e.Created), fillTimestamp(modified, e.Modified)
	entry.Revision, entry.FileCount, entry.Pinned = e.Revision, e.FileCount, e.Pinned
	if e.Dir {
		entry.Kind = memoryv1.EntryKind_ENTRY_KIND_DIRECTORY
		return
	}
	entry.Kind = memoryv1.EntryKind_ENTRY_KIND_FILE
	var digits [2 * len(e.SHA256)]byte
	hex.Encode(digits[:], e.SHA256[:])
	entry.Sha256 = string(digits[:])
}

func toEntries(entries []memory.Entry) []*memoryv1.Entry {
	all := make([]*memoryv1.Entry, len(entries))
	for i := range entries {
		all[i] = toEntry(&entries[i])
	}
	return all
}

func toNamespace(n memory.Namespace) *memoryv1.Namespace {
	return &memoryv1.Namespace{
		Name:              n.Name,
		Settings:          toSettings(n.Settings),
		EffectiveSettings: toSettings(n.Effective),
		Revision:          n.Revision,
		FileCount:         n.FileCount,
		SizeBytes:         n.Size,
		CreatedTime:       toTimestamp(n.Created),
	}
}

// toTimestamp turns a time that is not known into an absent one.
func toTimestamp(t time.Time) *timestamppb.Timestamp {
	return fillTimestamp(new(timestamppb.Timestamp), t)
}

// fillTimestamp is toTimestamp with the message that it is given.
func fillTimestamp(ts *timestamppb.Timestamp, t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	ts.Seconds, ts.Nanos = t.Unix(), int32(t.Nanosecond())
	return ts
}

// ReasonLabel is a reason as metrics and logs have it, such as "view_path_not_found"; "ok" for success.
func ReasonLabel(r memoryv1.Reason) string {
	if r == memoryv1.Reason_REASON_UNSPECIFIED {
		return "ok"
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "REASON_"))
}
