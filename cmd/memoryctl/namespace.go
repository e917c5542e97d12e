package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// namespacesPage is how many namespaces one call lists: the most that the service gives.
const namespacesPage = 1000

func (c *cli) namespaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "namespace",
		Short: "List, show, set up and delete namespaces",
		Long: `A namespace is one memory, a tree below /memories, with its settings. It needs
no making: it is there once something is written to it.

These commands take the name as an argument; --namespace has no effect on them.`,
		GroupID: groupAdmin,
		Args:    cobra.NoArgs, // or cobra would take the name of a command that does not exist
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error { // cobra runs it in place of that of the root
			if err := c.settle(cmd, args); err != nil {
				return err
			}
			c.about = ""
			if len(args) > 0 {
				c.about = "namespace " + args[0]
			}
			return nil
		},
	}
	cmd.AddCommand(c.namespaceListCommand(), c.namespaceShowCommand(), c.namespaceSetCommand(),
		c.namespaceDeleteCommand())
	return cmd
}

func (c *cli) namespaceListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the namespaces that hold anything",
		Example: `  memoryctl namespace list
  memoryctl namespace list -o json | jq -r '.namespaces[].name'`,
		Args: cobra.NoArgs,
		RunE: c.call(func(ctx context.Context, m *client.Client, _ []string) error {
			all := &memoryv1.ListNamespacesResponse{}
			for token, first := "", true; first || token != ""; first = false {
				page, err := m.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{
					PageSize: namespacesPage, PageToken: token,
				})
				if err != nil {
					return err
				}
				all.Namespaces = append(all.Namespaces, page.GetNamespaces()...)
				token = page.GetNextPageToken()
			}
			if c.output == outputJSON {
				return c.printJSON(all)
			}
			return c.print(namespacesTable(all.GetNamespaces()))
		}),
	}
}

func (c *cli) namespaceShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a namespace and its settings",
		Long: `Show shows what a namespace holds and which settings are in force. A namespace
to which nothing was ever written is shown empty.`,
		Example:           `  memoryctl namespace show acme/user-42`,
		Args:              namespaceArg,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			resp, err := m.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: args[0]})
			switch {
			case err != nil:
				return err
			case c.output == outputJSON:
				return c.printJSON(resp)
			}
			return c.print(namespaceTable(resp.GetNamespace()))
		}),
	}
}

func (c *cli) namespaceSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Change settings of a namespace",
		Long: `Set changes the settings that are given and leaves the others. They apply to the
next command. The value "default" gives a setting back to the configuration of
the service. It needs the right admin on the namespace.`,
		Example: `  memoryctl namespace set acme/user-42 --create-on-existing=overwrite
  memoryctl namespace set acme/user-42 --view-max-chars=0 --max-file-bytes=4194304
  memoryctl namespace set acme/user-42 --create-on-existing=default`,
		Args:              namespaceArg,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, s := range settings {
		flags.String(s.flag, "", s.usage)
		must(cmd.RegisterFlagCompletionFunc(s.flag,
			cobra.FixedCompletions(s.completions, cobra.ShellCompDirectiveNoFileComp)))
	}
	cmd.RunE = c.call(func(ctx context.Context, m *client.Client, args []string) error {
		c.about += ": admin"
		req := &memoryv1.UpdateNamespaceRequest{
			Namespace: args[0], Settings: &memoryv1.NamespaceSettings{}, UpdateMask: &fieldmaskpb.FieldMask{},
		}
		for _, s := range settings {
			if !flags.Changed(s.flag) {
				continue
			}
			req.UpdateMask.Paths = append(req.UpdateMask.Paths, s.field)
			value := flags.Lookup(s.flag).Value.String()
			if value == "default" {
				continue
			}
			if err := s.set(req.Settings, value); err != nil {
				return usageErrorf("--%s %q: %v", s.flag, value, err)
			}
		}
		if len(req.GetUpdateMask().GetPaths()) == 0 {
			return usageErrorf("no setting given")
		}
		resp, err := m.UpdateNamespace(ctx, req)
		switch {
		case err != nil:
			return err
		case c.output == outputJSON:
			return c.printJSON(resp)
		}
		return c.print(namespaceTable(resp.GetNamespace()))
	})
	return cmd
}

func (c *cli) namespaceDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a namespace with all its files and settings",
		Long: `Delete removes a namespace with all its files and settings. It asks for the name
once more; scripts say --yes. It needs the right admin on the namespace.`,
		Example: `  memoryctl namespace delete acme/user-42
  memoryctl namespace delete acme/user-42 --yes`,
		Args:              namespaceArg,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			c.about += ": admin"
			name := args[0]
			if !yes {
				if err := c.confirmDelete(ctx, m, name); err != nil {
					return err
				}
			}
			resp, err := m.DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{Namespace: name})
			switch {
			case err != nil:
				return err
			case c.output == outputJSON:
				return c.printJSON(resp)
			}
			return c.print("Deleted namespace " + name + "\n")
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// namespaceArg checks that there is one argument. An empty one is surely a variable that a script did not set; the
// client would take it for the default namespace.
func namespaceArg(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] == "" {
		return usageErrorf("NAME is empty")
	}
	return arguments(1, 1)(cmd, args)
}

// confirmDelete lets a person type the name of the namespace once more.
func (c *cli) confirmDelete(ctx context.Context, m *client.Client, name string) error {
	if !c.isTerminal(c.stdin) {
		return usageErrorf("there is no terminal to ask on: say --yes")
	}
	resp, err := m.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: name})
	if err != nil {
		return err
	}
	ns := resp.GetNamespace()
	c.warn(fmt.Sprintf("Namespace %s holds %s (%s). Deleting it cannot be undone.\nType its name to delete it: ",
		name, count(ns.GetFileCount(), "file", "files"), formatSize(ns.GetSizeBytes())))
	in := c.input(ctx)
	defer func() { _ = in.Close() }() // never fails
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read standard input: %w", err)
	}
	if strings.TrimSpace(answer) != name {
		return usageErrorf("that is not the name; nothing was deleted")
	}
	return nil
}

func namespacesTable(namespaces []*memoryv1.Namespace) string {
	var b strings.Builder
	w := newTable(&b)
	row(w, "NAME", "FILES", "SIZE", "REVISION", "CREATED")
	for _, ns := range namespaces {
		row(w, ns.GetName(), strconv.FormatInt(ns.GetFileCount(), 10), formatSize(ns.GetSizeBytes()),
			strconv.FormatInt(ns.GetRevision(), 10), formatTime(ns.GetCreatedTime()))
	}
	must(w.Flush()) // a strings.Builder takes everything
	return b.String()
}

func namespaceTable(ns *memoryv1.Namespace) string {
	var b strings.Builder
	w := newTable(&b)
	row(w, "Name:", ns.GetName())
	decimal := func(n int64) string { return strconv.FormatInt(n, 10) }
	limits := ns.GetEffectiveSettings()
	row(w, "Files:", ofLimit(decimal, ns.GetFileCount(), limits.GetMaxFiles()))
	row(w, "Size:", ofLimit(formatSize, ns.GetSizeBytes(), limits.GetMaxTotalBytes()))
	row(w, "Revision:", strconv.FormatInt(ns.GetRevision(), 10))
	row(w, "Created:", formatTime(ns.GetCreatedTime()))
	row(w)
	row(w, "SETTING", "VALUE", "SET BY")
	for _, s := range settings {
		value, known := s.get(ns.GetEffectiveSettings())
		if !known { // by a service of an older version
			continue
		}
		by := "service"
		if _, own := s.get(ns.GetSettings()); own {
			by = "namespace"
		}
		row(w, s.flag, value, by)
	}
	must(w.Flush())
	return b.String()
}

// ofLimit writes how much is used, and of how much. 0 is no limit, or one that a service of an older version does not
// tell.
func ofLimit(format func(int64) string, used, limit int64) string {
	if limit == 0 {
		return format(used)
	}
	return format(used) + " of " + format(limit)
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func row(w io.Writer, cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
