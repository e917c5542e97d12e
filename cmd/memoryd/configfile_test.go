package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// The configuration file of packages, /etc/memoryd/memoryd.yaml.
const configFilePath = "../../deploy/systemd/memoryd.yaml"

// packaged are the settings of packages that are not the defaults of memoryd: only the group of the service can connect.
var packaged = map[string]string{
	keyListen:     "unix:///run/memoryd/memoryd.sock",
	keyData:       "/var/lib/memoryd",
	keySocketMode: "0660",
}

// configFileText is the file: every setting with its meaning, and those that have their defaults commented out.
func configFileText() string {
	var b strings.Builder
	b.WriteString(`# Settings of memoryd, which reads them when it starts. What is commented out is the default. Flags and environment
# variables win over this file; memoryd(8) says more. Check it, and see what is in force, with
#
#	memoryd config --config /etc/memoryd/memoryd.yaml
`)
	allSettings().VisitAll(func(f *pflag.Flag) {
		if f.Name == keyConfig {
			return
		}
		_, meaning := pflag.UnquoteUsage(f)
		value, comment := packaged[f.Name], ""
		if value == "" {
			value, comment = strings.Trim(f.DefValue, "[]"), "#"
		}
		b.WriteString("\n# " + meaning + "\n" + comment + f.Name + ": " + yamlScalar(f, value) + "\n")
	})
	return b.String()
}

// yamlScalar is a value in YAML, in quotes where it would be read as something else than a text.
func yamlScalar(f *pflag.Flag, value string) string {
	isText := f.Value.Type() == "string" || f.Value.Type() == "stringSlice"
	if isText && !regexp.MustCompile(`^[a-z./][\w./:-]*$`).MatchString(value) {
		return "'" + value + "'"
	}
	return value
}

func TestConfigFile(t *testing.T) {
	if *update {
		if err := os.WriteFile(configFilePath, []byte(configFileText()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(configFilePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(configFileText(), string(content)); diff != "" {
		t.Errorf("%s differs from the settings; write it anew with\n"+
			"\tgo test ./cmd/memoryd -run TestConfigFile -update\n(-want +got)\n%s", configFilePath, diff)
	}

	for name, text := range map[string]string{
		"as it is":        string(content),
		"all uncommented": regexp.MustCompile(`(?m)^#([a-z-]+: )`).ReplaceAllString(string(content), "$1"),
	} {
		got := memoryd(t, nil, "config", "--config", writeFile(t, text))
		if got.Status != 0 || got.Stderr != "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
