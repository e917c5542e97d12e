package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choices are the values of the settings that have but a few.
var choices = map[string][]string{
	keyCreateOnExisting: slices.Sorted(maps.Keys(createOnExisting)),
	keyLogFormat:        {"text", "json"},
	keyLogLevel:         {"debug", "info", "warn", "error"},
	keySecrets:          {"off", "report", "mask", "refuse"},
}

// completeSettings says what a shell offers as values of the settings of a command and of those below it.
func completeSettings(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		completeSettings(below)
	}
	settings := allSettings()
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if settings.Lookup(f.Name) == nil {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, completionOf(f)); err != nil {
			panic(err) // Only a mistake in this program makes it fail.
		}
	})
}

// completionOf is what a shell offers as the value of a setting. What the usage says it is decides: the names of files
// and directories, or nothing.
func completionOf(f *pflag.Flag) cobra.CompletionFunc {
	if values := choices[f.Name]; values != nil {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	switch kind, _ := pflag.UnquoteUsage(f); {
	case f.Name == keyConfig:
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	case kind == "file":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	case kind == "directory":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	default:
		return cobra.NoFileCompletions
	}
}
