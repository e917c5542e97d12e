package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseFile is what the licences of modules are called.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenses writes the licences of all modules that are in the binaries, as they ask for. A module without one is an
// error.
func (r *release) licenses(ctx context.Context, path string) error {
	modules := map[string]string{} // the directory, by path and version
	systems := []string{"darwin", "linux", "windows"}
	for _, system := range systems {
		args := []string{"list", "-deps", "-f={{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}
		for _, program := range programs {
			args = append(args, "./cmd/"+program)
		}
		out, err := r.goCommand(ctx, []string{"GOOS=" + system, "CGO_ENABLED=0"}, args...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[module] = dir
			}
		}
	}
	goroot, err := r.goCommand(ctx, nil, "env", "GOROOT")
	if err != nil {
		return err
	}
	modules["The Go standard library"] = strings.TrimSpace(string(goroot))

	var all bytes.Buffer
	all.WriteString("memoryd contains these modules under their own licences.\n")
	names := make([]string, 0, len(modules))
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := licenseOf(modules[name])
		if err != nil {
			return fmt.Errorf("licence of %s: %w", name, err)
		}
		fmt.Fprintf(&all, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), name, text)
	}
	return writeContent(path, all.Bytes())
}

// licenseOf is what a directory has on licences.
func licenseOf(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenseFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		text = append(append(text, bytes.TrimSpace(content)...), '\n')
	}
	if text == nil {
		return nil, fmt.Errorf("there is none in %s", dir)
	}
	return text, nil
}
