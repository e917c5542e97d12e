package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) treeCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "tree [PATH]",
		SuggestFor: []string{"ls", "dir", "find", "list"},
		Short:      "Show everything below a directory, hidden entries and all depths",
		Long: `Tree shows everything below a directory, /memories if none is given: hidden
entries too, and all depths. Files that are pinned do not expire. Times are in
UTC.`,
		Example: `  memoryctl tree
  memoryctl tree /memories/projects
  memoryctl tree -o json | jq -r '.entries[].path'`,
		GroupID:           groupFiles,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			dir := "/memories"
			if len(args) > 0 {
				dir = args[0]
			}
			list, err := c.listAll(ctx, m, dir)
			switch {
			case err != nil:
				return err
			case c.output == outputJSON || list.GetResult().GetIsError():
				return c.printResponse(list)
			}
			return c.print(drawTree(dir, list.GetEntries()))
		}),
	}
}

// listAll returns the pages of a listing as one, or the page that is an error.
func (c *cli) listAll(ctx context.Context, m *client.Client, dir string) (*memoryv1.ListResponse, error) {
	all := &memoryv1.ListResponse{}
	changed := false
	for token, first := "", true; first || token != ""; first = false {
		page, err := withinRate(ctx, func() (*memoryv1.ListResponse, error) {
			return m.List(ctx, &memoryv1.ListRequest{Namespace: c.namespace, Path: dir, PageToken: token})
		})
		if err != nil {
			return nil, err
		}
		if page.GetResult().GetIsError() {
			return page, nil
		}
		changed = changed || !first && page.GetRevision() != all.GetRevision()
		all.Result, all.Revision = page.GetResult(), page.GetRevision()
		all.Entries = append(all.Entries, page.GetEntries()...)
		token = page.GetNextPageToken()
	}
	if changed {
		c.complain("the memory was changed while it was listed; the list may mix old and new")
	}
	return all, nil
}

// drawTree draws entries, of which those of one directory come in the order in which they are shown.
func drawTree(dir string, entries []*memoryv1.Entry) string {
	t := tree{children: make(map[string][]*memoryv1.Entry)}
	root := path.Clean(dir)
	if len(entries) > 0 {
		root = path.Dir(entries[0].GetPath()) // as the service spells it; shallow entries come first
	}
	var size, files, dirs int64
	for _, e := range entries {
		parent := path.Dir(e.GetPath())
		t.children[parent] = append(t.children[parent], e)
		if e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY {
			dirs++
		} else {
			files++
			size += e.GetSizeBytes()
		}
	}
	t.line("SIZE", "MODIFIED", "NAME")
	t.line(formatSize(size), "", root)
	t.draw(root, "")
	fmt.Fprintf(&t.text, "\n%s, %s\n", count(dirs, "directory", "directories"), count(files, "file", "files"))
	return t.text.String()
}

type tree struct {
	children map[string][]*memoryv1.Entry // by the path of the parent
	text     strings.Builder
}

func (t *tree) line(size, modified, name string) {
	fmt.Fprintf(&t.text, "%8s  %-20s  %s\n", size, modified, name)
}

func (t *tree) draw(dir, indent string) {
	children := t.children[dir]
	for i, e := range children {
		branch, below := "├── ", "│   "
		if i == len(children)-1 {
			branch, below = "└── ", "    "
		}
		name := path.Base(e.GetPath())
		if e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY {
			name += "/"
		}
		if e.GetPinned() {
			name += " (pinned)"
		}
		t.line(formatSize(e.GetSizeBytes()), formatTime(e.GetModifiedTime()), indent+branch+name)
		t.draw(e.GetPath(), indent+below)
	}
}
