package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// commands are all commands of ours.
func commands() []*cobra.Command {
	all := []*cobra.Command{(&cli{}).rootCommand()}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
	}
	return all
}

func TestHelp_Texts(t *testing.T) {
	for _, cmd := range commands() {
		if cmd.Runnable() && cmd.Name() != "version" && cmd.Name() != "namespace" && cmd.Example == "" {
			t.Errorf("%s: no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: a line has %d characters, want at most 80: %s", cmd.CommandPath(), n, line)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	tests := []struct{ line, want string }{
		{"", "memoryctl exit-status"},
		{"--help", "MEMORYCTL_ADDR"},
		{"help exit-status", "3  memoryd cannot be reached"},
		{"help connection", "MEMORYCTL_TOKEN_FILE"},
		{"view --help", "--range A:B"},
		{"view --help", "--token-file FILE"},
		{"namespace", "memoryctl namespace [command]"},
		{"completion bash", "__start_memoryctl"},
	}
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			got := run(t, strings.NewReader(""), strings.Fields(test.line)...)
			if got.Status != exitOK || got.Stderr != "" || !strings.Contains(got.Stdout, test.want) {
				t.Errorf("got %+v, want status %d and %q on standard output", got, exitOK, test.want)
			}
		})
	}
}

// Paths are those of the memory: completing local files would mislead.
func TestCompletion(t *testing.T) {
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"view", ""}, []string{":4"}},
		{[]string{"mv", "/memories/a", ""}, []string{":4"}},
		{[]string{"view", "x", "-o", ""}, []string{"table", "json", ":4"}},
		{[]string{"namespace", "set", "x", "--create-on-existing", ""}, []string{"error", "overwrite", "default", ":4"}},
		{[]string{"create", "x", "--file", ""}, []string{":0"}},
		{[]string{"view", "x", "--token-file", ""}, []string{":0"}},
		{[]string{"view", "x", "--tls-ca", ""}, []string{":0"}},
		{[]string{"view", "x", "--tls-server-name", ""}, []string{":4"}},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := run(t, strings.NewReader(""), append([]string{"__complete"}, test.args...)...)
			if lines := strings.Fields(got.Stdout); !slices.Equal(lines, test.want) {
				t.Errorf("got %q, want %q", lines, test.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	got := run(t, strings.NewReader(""), "version")
	if got.Status != exitOK || !strings.HasPrefix(got.Stdout, "memoryctl devel") {
		t.Errorf("got %+v, want status %d and the version", got, exitOK)
	}
}
