package agentkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// initializedPath is there once Initialize was done, so that it is not done again after the model has deleted or
// renamed all that it laid down.
const initializedPath = RecordsDir + "/initialized"

const initializedText = "The memory files of this project were laid down. " +
	"They are not laid down again while this file is here.\n"

// Plan is what a project is about. Templates are executed with it.
type Plan struct {
	// Goal is what the project is to achieve. Required.
	Goal string
	// Features are the scope, one line each, in the order in which they are to be worked on. None is possible: the
	// first session then writes them down itself.
	Features []string
	// StartScript is the path of the script, or the command, that starts the work in every session. Empty is none.
	StartScript string
}

// file is a memory file that Initialize lays down.
type file struct {
	path     string
	template *template.Template
}

func defaultFiles() []file {
	return []file{
		{ProgressPath, progressTemplate},
		{FeaturesPath, featuresTemplate},
		{StartupPath, startupTemplate},
	}
}

var progressTemplate = template.Must(template.New("progress").Parse(`## Project begun

Done: the memory files were laid down. No feature has been worked on yet.

Next: {{if .Features}}the first feature of{{else}}write the features down in{{end}} ` + FeaturesPath + `.
`))

var featuresTemplate = template.Must(template.New("features").Parse(`# Features

Goal: {{.Goal}}

A feature is marked complete, [x], only after an end-to-end check has shown that it works.
{{range .Features}}
- [ ] {{.}}{{else}}
No features have been written down yet.{{end}}
`))

var startupTemplate = template.Must(template.New("startup").Parse(`# Start-up

{{with .StartScript}}Run this at the beginning of every session: {{.}}{{else}}There is no start-up script.{{end}}
`))

// Initialize lays down the memory files of a project before the real work, all of them in one transaction. A project
// that is there already is left as it is, and created is false: one that was initialised before, whatever became of its
// files, and one that has any of the files. An error means that nothing was laid down, unless client.MayHaveBeenMade
// says otherwise; in any case Initialize can be called again. Files of WithTemplate that there cannot be beside each
// other, or that are no files of the project, are an error.
func (p *Project) Initialize(ctx context.Context, plan Plan) (created bool, err error) {
	if created, err = p.initialize(ctx, plan); err != nil {
		return false, fmt.Errorf("initialize project: %w", err)
	}
	return created, nil
}

func (p *Project) initialize(ctx context.Context, plan Plan) (created bool, err error) {
	if plan, err = plan.checked(); err != nil {
		return false, err
	}
	entries, err := p.list(ctx, RecordsDir)
	if err != nil {
		return false, err
	}
	commands, err := p.makeRoom(ctx, entries)
	if err != nil {
		return false, err
	}
	paths := make([]string, len(commands)) // of the files that the commands make
	for _, f := range p.files {
		if f.path == root || isRecord(f.path) {
			return false, fmt.Errorf("%s cannot be the path of a template: it has to be a file of the project", f.path)
		}
		var text strings.Builder
		if err := f.template.Execute(&text, plan); err != nil {
			return false, fmt.Errorf("write %s: %w", f.path, err)
		}
		commands, paths = append(commands, create(f.path, text.String())), append(paths, f.path)
	}
	commands, paths = append(commands, create(initializedPath, initializedText)), append(paths, initializedPath)

	resp, err := p.apply(ctx, "", "", commands)
	var refused *refusal
	if !errors.As(err, &refused) || !refused.exists() {
		return err == nil, err
	}
	taken := paths[resp.GetFailedCommand()]
	if taken == "" { // what was to be moved aside has changed meanwhile
		return false, err
	}
	// What is not there now was in the way only as another file of the same transaction.
	found, _, statErr := p.stat(ctx, taken)
	if statErr == nil && found == missing {
		return false, fmt.Errorf("%s cannot be laid down beside the other files: %w", taken, err)
	}
	return false, statErr
}

// checked returns the plan with every feature on one line.
func (p Plan) checked() (Plan, error) {
	if strings.TrimSpace(p.Goal) == "" {
		return Plan{}, errors.New("the plan has no goal")
	}
	features := make([]string, len(p.Features))
	for i, feature := range p.Features {
		if features[i] = oneLine(feature); features[i] == "" {
			return Plan{}, fmt.Errorf("feature %d of the plan is empty", i+1)
		}
	}
	p.Features, p.StartScript = features, oneLine(p.StartScript)
	return p, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
