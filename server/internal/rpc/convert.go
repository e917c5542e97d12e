package rpc

import (
	"encoding/hex"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func toResult(res memory.Result) *memoryv1.ToolResult {
	content := make([]*memoryv1.Content, len(res.Content))
	for i, b := range res.Content {
		content[i] = toContent(b)
	}
	return &memoryv1.ToolResult{IsError: res.IsError(), Reason: memoryv1.Reason(res.Reason), Content: content}
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
	entry := &memoryv1.Entry{
		Path:         e.Path,
		Kind:         memoryv1.EntryKind_ENTRY_KIND_FILE,
		SizeBytes:    e.Size,
		Lines:        e.Lines,
		CreatedTime:  toTimestamp(e.Created),
		ModifiedTime: toTimestamp(e.Modified),
		Revision:     e.Revision,
		FileCount:    e.FileCount,
		Pinned:       e.Pinned,
	}
	if e.Dir {
		entry.Kind = memoryv1.EntryKind_ENTRY_KIND_DIRECTORY
	} else {
		entry.Sha256 = hex.EncodeToString(e.SHA256[:])
	}
	return entry
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
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ReasonLabel is a reason as metrics and logs have it, such as "view_path_not_found"; "ok" for success.
func ReasonLabel(r memoryv1.Reason) string {
	if r == memoryv1.Reason_REASON_UNSPECIFIED {
		return "ok"
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "REASON_"))
}
