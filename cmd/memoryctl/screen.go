package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) screenCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "screen",
		Short: "Search what is stored for secrets",
		Long: `Screen searches the files of the memory for what looks like a secret: keys,
tokens and passwords. It changes nothing, and never shows the secret itself.

The setting secrets of a namespace is about what is written from now on. Screen
is about what is there already, and tells of doubtful places too: the rule
generic-api-key, for example, flags hashes. Of one file it tells at most 100.

The exit status is 1 when something was found, as that of linters.`,
		Example: `  memoryctl screen
  memoryctl screen --all-namespaces
  memoryctl screen -o json | jq -r 'select(.rule != "generic-api-key") | .path' | sort -u`,
		GroupID:           groupAdmin,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&all, "all-namespaces", false, "search every namespace that you may read")
	cmd.RunE = c.call(func(ctx context.Context, m *client.Client, _ []string) error {
		if all && cmd.Flags().Changed("namespace") {
			return usageErrorf("--namespace and --all-namespaces exclude each other")
		}
		namespaces := []string{c.namespace}
		if all {
			var err error
			if namespaces, err = namespaceNames(ctx, m); err != nil {
				return err
			}
		}
		var found []storedSecret
		files := int64(0)
		for _, namespace := range namespaces {
			if all {
				c.about = "namespace " + namespace
			}
			secrets, n, err := screenNamespace(ctx, m, namespace)
			if err != nil {
				return err
			}
			found = append(found, secrets...)
			files += n
		}
		if err := c.printSecrets(found, files); err != nil {
			return err
		}
		if len(found) > 0 {
			return errErrorResult
		}
		return nil
	})
	return cmd
}

// storedSecret is a place that looks like a secret, as programs read it.
type storedSecret struct {
	Namespace string `json:"namespace"`
	Path      string `json:"path"`
	Line      int64  `json:"line"`
	Rule      string `json:"rule"`
}

// screenNamespace searches a namespace, page by page, and tells how many files it has searched.
func screenNamespace(ctx context.Context, m *client.Client, namespace string) (
	found []storedSecret, files int64, err error,
) {
	for token, first := "", true; first || token != ""; first = false {
		page, err := m.Screen(ctx, &memoryv1.ScreenRequest{Namespace: namespace, PageToken: token})
		if err != nil {
			return nil, 0, err
		}
		for _, f := range page.GetFindings() {
			found = append(found, storedSecret{namespace, f.GetPath(), f.GetLine(), f.GetRule()})
		}
		files += page.GetFileCount()
		token = page.GetNextPageToken()
	}
	return found, files, nil
}

// namespaceNames lists the namespaces that hold anything.
func namespaceNames(ctx context.Context, m *client.Client) ([]string, error) {
	var names []string
	for token, first := "", true; first || token != ""; first = false {
		page, err := m.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{PageSize: namespacesPage, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, namespace := range page.GetNamespaces() {
			names = append(names, namespace.GetName())
		}
		token = page.GetNextPageToken()
	}
	return names, nil
}

// printSecrets prints a table, or for programs one object a line.
func (c *cli) printSecrets(found []storedSecret, files int64) error {
	var b strings.Builder
	if c.output == outputJSON {
		lines := json.NewEncoder(&b)
		for _, s := range found {
			if err := lines.Encode(s); err != nil {
				return fmt.Errorf("encode finding: %w", err)
			}
		}
		return c.print(b.String())
	}
	if len(found) > 0 {
		w := newTable(&b)
		row(w, "NAMESPACE", "PATH", "LINE", "RULE")
		for _, s := range found {
			row(w, s.Namespace, s.Path, strconv.FormatInt(s.Line, 10), s.Rule)
		}
		must(w.Flush()) // a strings.Builder takes everything
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s found in %s\n", count(int64(len(found)), "secret", "secrets"), count(files, "file", "files"))
	return c.print(b.String())
}
