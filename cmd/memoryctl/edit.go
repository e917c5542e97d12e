package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) createCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "create PATH [TEXT | --file FILE | -]",
		Short: "Make a text file",
		Long: `Create makes a text file and the directories above it. The text is TEXT as it
stands, the contents of FILE, or what comes on standard input: for -, and where
there is no TEXT and standard input is not a terminal.

Where the file exists it is an error, or the file is replaced: that is a setting
of the namespace, see "memoryctl namespace set --help".`,
		Example: `  memoryctl create /memories/notes.md "Likes tea"
  memoryctl create /memories/notes.md --file notes.md
  date | memoryctl create /memories/today.md
  memoryctl create /memories/list.md -- "- a text that begins with a dash"`,
		GroupID:           groupMemory,
		Args:              arguments(1, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			text, err := c.readText(ctx, args[1:], file)
			if err != nil {
				return err
			}
			resp, err := m.Create(ctx, &memoryv1.CreateRequest{Namespace: c.namespace, Path: args[0], FileText: text})
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "local `FILE` that has the text")
	return cmd
}

func (c *cli) strReplaceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "str-replace PATH OLD [NEW]",
		Short: "Replace the one place where a text occurs in a file",
		Long: `Str-replace puts NEW where OLD is in the file. OLD must occur exactly once, and
may span lines. Without NEW, OLD is deleted.`,
		Example: `  memoryctl str-replace /memories/notes.md "Likes tea" "Likes coffee"
  memoryctl str-replace /memories/notes.md $'\nLikes tea'             delete a line (bash, zsh)
  memoryctl str-replace /memories/list.md -- "- tea" "- coffee"       texts that begin with a dash`,
		GroupID:           groupMemory,
		Args:              arguments(2, 3),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			req := &memoryv1.StrReplaceRequest{Namespace: c.namespace, Path: args[0], OldStr: args[1]}
			if len(args) > 2 {
				req.NewStr = args[2]
			}
			resp, err := m.StrReplace(ctx, req)
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
}

func (c *cli) insertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "insert PATH LINE [TEXT | -]",
		Short: "Put lines after a line of a file",
		Long: `Insert puts lines after line LINE of the file; 0 is the top. The text is TEXT as
it stands, or what comes on standard input: for -, and where there is no TEXT
and standard input is not a terminal.`,
		Example: `  memoryctl insert /memories/notes.md 0 "# Notes"
  git log -1 | memoryctl insert /memories/notes.md 12`,
		GroupID:           groupMemory,
		Args:              arguments(2, 3),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			line, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usageErrorf("LINE %q: want a whole number; 0 is the top", args[1])
			}
			text, err := c.readText(ctx, args[2:], "")
			if err != nil {
				return err
			}
			resp, err := m.Insert(ctx, &memoryv1.InsertRequest{
				Namespace: c.namespace, Path: args[0], InsertLine: line, InsertText: text,
			})
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
}

func (c *cli) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a file, or a directory with everything below it",
		Long: `Rm deletes a file, or a directory with everything below it. It does not ask. A
whole namespace goes with "memoryctl namespace delete".`,
		Example: `  memoryctl rm /memories/notes.md
  memoryctl rm /memories/projects`,
		GroupID:           groupMemory,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			resp, err := m.Delete(ctx, &memoryv1.DeleteRequest{Namespace: c.namespace, Path: args[0]})
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
}

func (c *cli) mvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mv OLD NEW",
		Short: "Move a file or directory to a path that does not exist yet",
		Long: `Mv gives a file or directory the path NEW, and makes the directories above it.
NEW is the whole new path, not the directory to move into.`,
		Example:           `  memoryctl mv /memories/notes.md /memories/archive/notes.md`,
		GroupID:           groupMemory,
		Args:              arguments(2, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			resp, err := m.Rename(ctx, &memoryv1.RenameRequest{
				Namespace: c.namespace, OldPath: args[0], NewPath: args[1],
			})
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
}
