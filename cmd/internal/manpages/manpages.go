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
	"strconv"
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
	toMarkdown(root)
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
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + section
	var page bytes.Buffer
	header := &doc.GenManHeader{Section: section, Source: source, Manual: "memoryd manual"}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	text := option.ReplaceAll(page.Bytes(), []byte(".TP\n$1 \\fI$2\\fP\n$3"))
	// Flags that take nothing have nothing to stand for it.
	text = bytes.ReplaceAll(text, []byte(" \\fI\\fP\n"), []byte("\n"))
	if isTopic { // It cannot be run.
		text = synopsisOrOptions.ReplaceAll(text, nil)
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // It is for everybody.
}

var (
	// option is a flag as package doc writes it, which is no tagged paragraph: its names, what it takes, where package doc
	// has the default as if that were to be typed, and its usage.
	option = regexp.MustCompile(`(?m)(?:^\.PP\n)?^(\\fB-[^=\[\n]*)\[?="?([^"\]\n]*)"?\]?\n\t(.*)$`)

	synopsisOrOptions = regexp.MustCompile(`(?m)^\.SH (?:SYNOPSIS|OPTIONS.*)\n(?:[^.\n].*\n|\.[^S].*\n|\n)*`)
)

// toMarkdown makes Markdown, as which package doc takes them, of the texts of a command and of those below it. They are
// for terminals.
func toMarkdown(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		toMarkdown(below)
	}
	cmd.DisableAutoGenTag = true
	cmd.InitDefaultHelpFlag() // as package doc does when it is too late for what follows
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
		takes, usage := pflag.UnquoteUsage(f)
		f.Usage = escape(usage + defaultOf(f))
		f.DefValue = takes // Package doc prints it after the name.
	})
}

// defaultOf is the default of a flag as its usage ends with it on a terminal: not at all where it is nothing.
func defaultOf(f *pflag.Flag) string {
	text := strings.Trim(f.DefValue, "[]")
	switch text {
	case "", "0", "0s", "false":
		return ""
	}
	if f.Value.Type() == "string" {
		text = strconv.Quote(text)
	}
	return " (default " + text + ")"
}

// special is what Markdown would not print as it stands.
var special = regexp.MustCompile("[\\\\`*_<>\\[\\]]")

func escape(text string) string { return special.ReplaceAllString(text, `\$0`) }
