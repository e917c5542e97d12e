package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// environ is os.Environ.
type environ func() []string

// unknownVariable is a variable of the environment that begins as ours do and is none of them.
type unknownVariable struct {
	name    string
	nearest string // the name of ours that it may have been meant for; "" where none is near
}

// unknownVariables finds what may be a slip: a setting that its author takes for one in force. It looks at no values,
// which may be secrets.
func unknownVariables(environ environ) []unknownVariable {
	known := map[string]bool{}
	allSettings().VisitAll(func(f *pflag.Flag) { known[envName(f.Name)] = true })
	var unknown []unknownVariable
	for _, variable := range environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, envPrefix) && !known[name] && !setByKubernetes(name) {
			unknown = append(unknown, unknownVariable{name, nearestVariable(name)})
		}
	}
	return unknown
}

// setByKubernetes tells whether it is a variable that Kubernetes sets by itself where a service is called memoryd.
func setByKubernetes(name string) bool {
	return name == envPrefix+"SERVICE_HOST" || strings.HasPrefix(name, envPrefix+"SERVICE_PORT") ||
		name == envPrefix+"PORT" || strings.HasPrefix(name, envPrefix+"PORT_")
}

// nearestVariable returns the variable of a setting that takes the fewest slips to become name, "" where it takes more
// than two, or than every third letter of name.
func nearestVariable(name string) string {
	nearest, fewest := "", max(2, (len(name)-len(envPrefix))/3)+1
	allSettings().VisitAll(func(f *pflag.Flag) {
		known := envName(f.Name)
		if n := slips(name, known); n < fewest {
			nearest, fewest = known, n
		}
	})
	return nearest
}

// slips is how many letters of a must be changed, left out or put in to have b.
func slips(a, b string) int {
	row := make([]int, len(b)+1) // of what is before i in a, by how much of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// logUnknown warns of variables that the service does not know.
func logUnknown(ctx context.Context, logger *slog.Logger, unknown []unknownVariable) {
	for _, v := range unknown {
		attrs := []slog.Attr{slog.String("variable", v.name)}
		if v.nearest != "" {
			attrs = append(attrs, slog.String("nearest", v.nearest))
		}
		logger.LogAttrs(ctx, slog.LevelWarn, "environment variable belongs to no setting and has no effect", attrs...)
	}
}

// printUnknown is logUnknown for people.
func printUnknown(w io.Writer, unknown []unknownVariable) error {
	for _, v := range unknown {
		hint := ""
		if v.nearest != "" {
			hint = "; did you mean " + v.nearest + "?"
		}
		if _, err := fmt.Fprintf(w, "memoryd: %s belongs to no setting and has no effect%s\n", v.name, hint); err != nil {
			return fmt.Errorf("print warnings: %w", err)
		}
	}
	return nil
}
