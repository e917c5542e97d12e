// Package manpages writes the manual pages of a command line.
//
// Only tests import it, and `make dist` runs those to have the pages: the programs stay without what it takes.
package manpages

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Write writes a page for a command and each command and help topic below it to a directory, which it makes: the page
// of `memoryctl namespace list` is memoryctl-namespace-list.1 in section 1. The pages are dated SOURCE_DATE_EPOCH where
// that is in the environment, and today otherwise. The commands cannot be used afterwards.
func Write(dir string, root *cobra.Command, section string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Manual pages are for everybody.
		return err
	}
	return write(dir, root, root.Name(), section)
}

func write(dir string, cmd *cobra.Command, source, section string) error {
	for _, below := range cmd.Commands() {
		if below.Hidden || below.Name() == "help" {
			continue
		}
		if err := write(dir, below, source, section); err != nil {
			return err
		}
	}
	isTopic := cmd.IsAdditionalHelpTopicCommand()
	toMarkdown(cmd)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + section
	var page bytes.Buffer
	header := &doc.GenManHeader{Section: section, Source: source, Manual: "memoryd manual"}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	text := option.ReplaceAll(page.Bytes(), []byte(".TP\n$1\n$2"))
	if isTopic { // It cannot be run.
		text = synopsisOrOptions.ReplaceAll(text, nil)
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // It is for everybody.
}

var (
	// option is a flag as package doc writes it, which is no tagged paragraph.
	option = regexp.MustCompile(`(?m)(?:^\.PP\n)?^(\\fB-.*)\n\t(.*)$`)

	synopsisOrOptions = regexp.MustCompile(`(?m)^\.SH (?:SYNOPSIS|OPTIONS.*)\n(?:[^.\n].*\n|\.[^S].*\n|\n)*`)
)

// toMarkdown makes Markdown, as which package doc takes them, of the texts of a command, which are for terminals.
func toMarkdown(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	var long strings.Builder
	for line := range strings.Lines(cmd.Long) {
		if strings.HasPrefix(line, " ") { // A table, or commands: Markdown has them as code.
			long.WriteString("    " + line)
		} else {
			long.WriteString(escape(line))
		}
	}
	cmd.Long, cmd.Short = long.String(), escape(cmd.Short)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		f.Usage = escape(usage)
	})
}

// special is what Markdown would not print as it stands.
var special = regexp.MustCompile("[\\\\`*_<>\\[\\]]")

func escape(text string) string { return special.ReplaceAllString(text, `\$0`) }
