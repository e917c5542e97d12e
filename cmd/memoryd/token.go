package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/server"
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make bearer tokens for the callers of a shared service",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenNewCommand(rand.Reader))
	return cmd
}

// newTokenNewCommand returns the command that makes a token of what random gives.
func newTokenNewCommand(random io.Reader) *cobra.Command {
	var namespaces, rights []string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a token, and the entry for the file that --principals names",
		Long: `New prints a token on stdout, once: it is kept nowhere. On stderr it prints the entry for the list principals
in the file that --principals names, which holds a hash of the token only. NAME is who the log and the audit trail say
has called. A second entry goes to the end of that file: cat entry.yaml >>principals.yaml

To replace a token, make a new one, add its hash to the list tokens of the entry that is there, and take the old one
out when nobody uses it any more.`,
		Example: `  (umask 077; memoryd token new support --namespaces 'acme/support/**' --rights read,write \
    >support.token 2>entry.yaml) &&
  (echo principals:; cat entry.yaml) >principals.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%d arguments given, but it is: %s", len(args), cmd.UseLine())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := server.ValidatePrincipalName(args[0]); err != nil {
				return &usageError{err}
			}
			if (len(namespaces) == 0) != (len(rights) == 0) {
				return &usageError{fmt.Errorf("--namespaces and --rights go together: what may be done, and where")}
			}
			token, hash, err := server.NewToken(random)
			if err != nil {
				return fmt.Errorf("make a token: %w", err)
			}
			if err := checkGrant(hash, namespaces, rights); err != nil {
				return &usageError{err}
			}
			entry := principalEntry(args[0], hash, namespaces, rights)
			if err := server.ValidatePrincipals([]byte(principalsKey + entry)); err != nil {
				return &usageError{err}
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), token); err != nil {
				return fmt.Errorf("print the token: %w", err)
			}
			if _, err := io.WriteString(cmd.ErrOrStderr(), entry); err != nil {
				return fmt.Errorf("print the entry: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&namespaces, "namespaces", nil,
		"patterns of the namespaces it is for, such as acme/support or 'acme/support/**'")
	cmd.Flags().StringSliceVar(&rights, "rights", nil,
		"what it may do there: read, write, admin; and history, which nothing asks for yet")
	return cmd
}

// principalsKey is the line of a file of principals before the entries.
const principalsKey = "principals:\n"

// checkGrant names the flag with what cannot be granted.
func checkGrant(hash string, namespaces, rights []string) error {
	if len(namespaces) == 0 { // and so there are no rights
		return nil
	}
	for _, flag := range []struct {
		name               string
		namespaces, rights []string
	}{
		{"--rights", []string{"**"}, rights},
		{"--namespaces", namespaces, []string{"read"}},
	} {
		entry := principalEntry("name", hash, flag.namespaces, flag.rights)
		err := server.ValidatePrincipals([]byte(principalsKey + entry))
		if cause := errors.Unwrap(err); cause != nil { // without the line, which is none of a file that is there
			err = cause
		}
		if err != nil {
			return fmt.Errorf("%s: %w", flag.name, err)
		}
	}
	return nil
}

// principalEntry is the entry of a principal in a file of principals. Without namespaces it shows how to grant.
func principalEntry(name, hash string, namespaces, rights []string) string {
	grants := "    grants: [] # such as [{namespaces: [\"acme/support/**\"], rights: [read, write]}]\n"
	if len(namespaces) > 0 {
		grants = "    grants:\n      - namespaces: [" + quoted(namespaces) + "]\n" +
			"        rights: [" + quoted(rights) + "]\n"
	}
	return "  - name: " + strconv.Quote(name) + "\n    tokens: [" + strconv.Quote(hash) + "]\n" + grants
}

// quoted are texts as the items of a list in YAML.
func quoted(texts []string) string {
	items := make([]string, len(texts))
	for i, text := range texts {
		items[i] = strconv.Quote(text)
	}
	return strings.Join(items, ", ")
}
