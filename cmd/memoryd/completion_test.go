package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// TestCompletion asks what a shell would ask.
func TestCompletion(t *testing.T) {
	const values, files, extensions, dirs = ":4\n", ":0\n", ":8\n", ":16\n" // what the shell is told to do
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--log-level", ""}, "debug\ninfo\nwarn\nerror\n" + values},
		{[]string{"config", "--secrets", ""}, "off\nreport\nmask\nrefuse\n" + values},
		{[]string{"--create-on-existing", ""}, "error\noverwrite\n" + values},
		{[]string{"check", "--log-format", ""}, "text\njson\n" + values},
		{[]string{"--config", ""}, "yaml\nyml\n" + extensions},
		{[]string{"--data", ""}, dirs},
		{[]string{"--tls-cert", ""}, files},
		{[]string{"--listen", ""}, values},
		{[]string{"health", "--tls-cert", ""}, files},
	} {
		got := memoryd(t, nil, append([]string{"__complete"}, tt.args...)...)
		if diff := cmp.Diff(tt.want, got.Stdout); diff != "" || got.Status != 0 {
			t.Errorf("%q: status %d (-want +got)\n%s", tt.args, got.Status, diff)
		}
	}
}

// TestCompletion_Choices checks that every value that is offered is taken, and that no setting has one more.
func TestCompletion_Choices(t *testing.T) {
	for key, values := range choices {
		for _, value := range values {
			if got := memoryd(t, nil, "config", "--"+key, value); got.Status != 0 {
				t.Errorf("--%s %s: %+v", key, value, got)
			}
		}
		got := memoryd(t, nil, "config", "--"+key, "none-such")
		if missing := strings.Count(got.Stderr, ", ") + strings.Count(got.Stderr, " or ") + 1; missing != len(values) {
			t.Errorf("--%s: completion has %q, but %s", key, values, got.Stderr)
		}
	}
	list := regexp.MustCompile(`: [a-z]+(, [a-z]+)* or [a-z]+$`)
	allSettings().VisitAll(func(f *pflag.Flag) {
		if _, usage := pflag.UnquoteUsage(f); list.MatchString(usage) && choices[f.Name] == nil {
			t.Errorf("--%s has no completion, but %q", f.Name, usage)
		}
	})
}

// TestCompletion_Scripts makes the script of every shell.
func TestCompletion_Scripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := memoryd(t, nil, "completion", shell); got.Status != 0 || !strings.Contains(got.Stdout, "memoryd") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
}
