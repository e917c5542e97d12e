package agentkit

import (
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	memoryserver "github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

var shop = Plan{
	Goal:        "A shop that sells <tea> & \"coffee\".",
	Features:    []string{"list the goods", "  a basket\nthat remembers "},
	StartScript: "./init.sh",
}

func initialize(t *testing.T, p *Project, plan Plan) bool {
	t.Helper()
	created, err := p.Initialize(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestInitialize(t *testing.T) {
	m := newMemory(t)
	if !initialize(t, m.project(), shop) {
		t.Error("got an old project, want a new one")
	}
	m.checkFile(t, ProgressPath, `## Project begun

Done: the memory files were laid down. No feature has been worked on yet.

Next: the first feature of /memories/features.md.
`)
	m.checkFile(t, FeaturesPath, `# Features

Goal: A shop that sells <tea> & "coffee".

A feature is marked complete, [x], only after an end-to-end check has shown that it works.

- [ ] list the goods
- [ ] a basket that remembers
`)
	m.checkFile(t, StartupPath, `# Start-up

Run this at the beginning of every session: ./init.sh
`)
	if diff := cmp.Diff([]string{FeaturesPath, ProgressPath, StartupPath}, m.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestInitialize_BarePlan(t *testing.T) {
	m := newMemory(t)
	initialize(t, m.project(), Plan{Goal: "Read all there is about tea."})
	m.checkFile(t, FeaturesPath, `# Features

Goal: Read all there is about tea.

A feature is marked complete, [x], only after an end-to-end check has shown that it works.

No features have been written down yet.
`)
	m.checkFile(t, StartupPath, "# Start-up\n\nThere is no start-up script.\n")
	m.checkFile(t, ProgressPath, `## Project begun

Done: the memory files were laid down. No feature has been worked on yet.

Next: write the features down in /memories/features.md.
`)
}

// A project that is there is left as it is, whatever the model has made of its files.
func TestInitialize_Once(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, m memory){
		"unchanged": func(*testing.T, memory) {},
		"one file deleted": func(t *testing.T, m memory) {
			m.delete(t, FeaturesPath)
		},
		"all files deleted": func(t *testing.T, m memory) {
			for _, path := range m.files(t) {
				m.delete(t, path)
			}
		},
		"renamed": func(t *testing.T, m memory) {
			m.rename(t, ProgressPath, "/memories/log.md")
		},
		"a directory for the mark": func(t *testing.T, m memory) {
			for _, path := range append(m.files(t), initializedPath) {
				m.delete(t, path)
			}
			m.create(t, initializedPath+"/x", "")
		},
		"a file for the records": func(t *testing.T, m memory) {
			m.delete(t, RecordsDir)
			m.create(t, RecordsDir, "x")
		},
		"records deleted": func(t *testing.T, m memory) {
			m.delete(t, RecordsDir)
		},
		"records and two files deleted": func(t *testing.T, m memory) {
			m.delete(t, RecordsDir)
			m.delete(t, ProgressPath)
			m.delete(t, StartupPath)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			initialize(t, m.project(), shop)
			change(t, m)
			before := m.namespaceRevision(t)
			if initialize(t, m.project(), Plan{Goal: "Another."}) {
				t.Error("got a new project, want the old one")
			}
			if got := m.namespaceRevision(t); got != before {
				t.Errorf("got revision %d, want %d: nothing is to be written", got, before)
			}
		})
	}
}

// Memory that the package knows nothing of is left alone too, even where create may overwrite.
func TestInitialize_ForeignMemory(t *testing.T) {
	for _, path := range []string{ProgressPath, FeaturesPath, StartupPath, ProgressPath + "/deep"} {
		overwrite := memoryserver.CreateOverwrite
		m := newMemory(t, servertest.WithSettings(memoryserver.Settings{CreateOnExisting: &overwrite}))
		m.create(t, path, "of somebody else")
		if initialize(t, m.project(), shop) {
			t.Errorf("%s: got a new project, want the memory left alone", path)
		}
		if diff := cmp.Diff([]string{path}, m.files(t)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		m.checkFile(t, path, "of somebody else")
	}
}

// A file in the place of the records is moved aside.
func TestInitialize_RecordsDirIsAFile(t *testing.T) {
	m := newMemory(t)
	m.create(t, RecordsDir, "mine")
	m.create(t, RecordsDir+"-1", "mine too")
	if !initialize(t, m.project(), shop) {
		t.Error("got an old project, want a new one")
	}
	if initialize(t, m.project(), shop) {
		t.Error("got a new project, want the old one")
	}
	m.checkFile(t, RecordsDir+"-2", "mine")
	m.checkFile(t, RecordsDir+"-1", "mine too")
}

// What the file was replaced by in the last moment is not moved aside, nor taken for a project.
func TestInitialize_RecordsDirIsPutRight(t *testing.T) {
	m := newMemory(t)
	m.create(t, RecordsDir, "mine")
	p := m.startProcess(t, 0, before)
	p.meanwhile = map[string]func(){"Apply": func() {
		m.delete(t, RecordsDir)
		m.create(t, RecordsDir+"/x", "")
	}}
	project := New(p.client, namespace)
	if created, err := project.Initialize(t.Context(), shop); created || err == nil {
		t.Errorf("got created %t and error %v, want an error", created, err)
	}
	if !initialize(t, project, shop) {
		t.Error("got an old project, want a new one")
	}
}

func TestInitialize_OtherFilesDoNotMatter(t *testing.T) {
	m := newMemory(t)
	m.create(t, "/memories/preferences.md", "Short answers.")
	if !initialize(t, m.project(), shop) {
		t.Error("got an old project, want a new one")
	}
}

func TestWithTemplate(t *testing.T) {
	m := newMemory(t)
	p := m.project(
		WithTemplate(FeaturesPath, template.Must(template.New("").Parse("{{range .Features}}* {{.}}\n{{end}}"))),
		WithTemplate("/memories/rules/style.md", template.Must(template.New("").Parse("No tabs in {{.Goal}}"))),
	)
	initialize(t, p, Plan{Goal: "tea", Features: []string{"a", "b"}})
	m.checkFile(t, FeaturesPath, "* a\n* b\n")
	m.checkFile(t, "/memories/rules/style.md", "No tabs in tea")
	want := []string{FeaturesPath, ProgressPath, "/memories/rules/style.md", StartupPath}
	if diff := cmp.Diff(want, m.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// However its path is spelled, a template is for the file.
func TestWithTemplate_Spelling(t *testing.T) {
	for _, path := range []string{"/memories//progress.md", "/memories/progress.md/", "/memories/./progress.md"} {
		m := newMemory(t)
		initialize(t, m.project(WithTemplate(path, template.Must(template.New("").Parse("mine")))), shop)
		m.checkFile(t, ProgressPath, "mine")
		if files := m.files(t); len(files) != 3 {
			t.Errorf("%s: got files %q, want 3", path, files)
		}
	}
}

// Files that there cannot be together are never taken for a project that is there.
func TestWithTemplate_Impossible(t *testing.T) {
	text := template.Must(template.New("").Parse("mine"))
	for name, tt := range map[string]struct {
		opts []Option
		want string
	}{
		"root":                {[]Option{WithTemplate("/memories", text)}, "/memories cannot be the path of a template"},
		"root with a slash":   {[]Option{WithTemplate("/memories/./", text)}, "/memories cannot be the path of a template"},
		"records":             {[]Option{WithTemplate(RecordsDir, text)}, "cannot be the path of a template"},
		"mark":                {[]Option{WithTemplate("/memories//.agentkit/initialized", text)}, "cannot be the path of a template"},
		"a record":            {[]Option{WithTemplate(recordPath("one"), text)}, "cannot be the path of a template"},
		"below a file":        {[]Option{WithTemplate(ProgressPath+"/x", text)}, "A parent of /memories/progress.md/x is a file"},
		"file and directory":  {[]Option{WithTemplate("/memories/a/b", text), WithTemplate("/memories/a", text)}, "/memories/a cannot be laid down beside the other files"},
		"composed and not so": {[]Option{WithTemplate("/memories/\u00e9", text), WithTemplate("/memories/e\u0301", text)}, "/memories/e\u0301 cannot be laid down beside the other files"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			for range 2 {
				created, err := m.project(tt.opts...).Initialize(t.Context(), shop)
				checkErrorHas(t, err, tt.want)
				if created || m.namespaceRevision(t) != 0 {
					t.Errorf("got created %t at revision %d, want nothing", created, m.namespaceRevision(t))
				}
			}
		})
	}
}

func TestInitialize_Errors(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []Option
		plan Plan
		want string
	}{
		{name: "no goal", plan: Plan{Goal: " \n"}, want: "initialize project: the plan has no goal"},
		{name: "empty feature", plan: Plan{Goal: "g", Features: []string{"a", " "}}, want: "feature 2 of the plan is empty"},
		{
			name: "template fails", plan: Plan{Goal: "g"},
			opts: []Option{WithTemplate("/memories/x", template.Must(template.New("").Parse("{{.Color}}")))},
			want: "initialize project: write /memories/x: ",
		},
		{
			name: "path is outside", plan: Plan{Goal: "g"},
			opts: []Option{WithTemplate("/etc/x", template.Must(template.New("").Parse("")))},
			want: "Error: Path must start with /memories, got: /etc/x",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(t)
			created, err := m.project(tt.opts...).Initialize(t.Context(), tt.plan)
			checkErrorHas(t, err, tt.want)
			if files := m.files(t); created || len(files) > 0 {
				t.Errorf("got created %t with files %q, want nothing", created, files)
			}
		})
	}
}

// namespaceRevision changes with every change.
func (m memory) namespaceRevision(t *testing.T) int64 {
	t.Helper()
	resp, err := m.Client.GetNamespace(t.Context(), &memoryv1.GetNamespaceRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetNamespace().GetRevision()
}
