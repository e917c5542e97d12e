package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	apiPage   = "docs/api.md"
	apiBegins = "<!-- api -->\n"
	apiEnds   = "<!-- /api -->\n"
)

// TestDocs_API checks that docs/api.md has what the protos say, comments included.
func TestDocs_API(t *testing.T) {
	file := filepath.Join(repository, filepath.FromSlash(apiPage))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), apiBegins)
	_, after, ends := strings.Cut(rest, apiEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place between %q and %q", apiPage, apiBegins, apiEnds)
	}
	want := before + apiBegins + newReference(t).String() + apiEnds + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := gocmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s differs from the protos; write it anew with\n"+
			"\tgo test ./cmd/e2e -run TestDocs_API -update\n(-want +got)\n%s", apiPage, diff)
	}
}

// reference is the reference of the API.
type reference struct {
	bytes.Buffer
	symbols map[string]string // the link to a message, enum, method, field or value, by the name that comments have for it
}

// newReference writes the reference of the services, messages and enums in proto.
func newReference(t *testing.T) *reference {
	t.Helper()
	build := exec.Command("go", "tool", "buf", "build", "--as-file-descriptor-set", "--output", "-")
	build.Dir = repository
	var stderr bytes.Buffer
	build.Stderr = &stderr
	image, err := build.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", build, err, &stderr)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &set); err != nil {
		t.Fatal(err)
	}
	registry, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{symbols: map[string]string{}}
	var files []protoreflect.FileDescriptor
	registry.RangeFilesByPackage("memoryd.v1", func(f protoreflect.FileDescriptor) bool {
		files = append(files, f)
		return true
	})
	// The memory is what it is about; the other services come after it.
	slices.SortFunc(files, func(a, b protoreflect.FileDescriptor) int {
		first := func(f protoreflect.FileDescriptor) int {
			return slices.Index([]string{"memory", "file", "admin"}, strings.TrimSuffix(filepath.Base(f.Path()), ".proto"))
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Path(), b.Path()))
	})
	for _, f := range files {
		r.learn(f)
	}
	for _, f := range files {
		for i := range f.Services().Len() {
			r.service(t, f.Services().Get(i))
		}
	}
	r.WriteString("## Messages\n\n")
	for _, f := range files {
		for i := range f.Messages().Len() {
			r.message(f.Messages().Get(i))
		}
	}
	r.WriteString("## Enums\n\n")
	for _, f := range files {
		for i := range f.Enums().Len() {
			r.enum(f.Enums().Get(i))
		}
	}
	return r
}

// learn notes where the links to what a file declares lead.
func (r *reference) learn(f protoreflect.FileDescriptor) {
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		r.symbols[string(s.Name())] = "#" + strings.ToLower(string(s.Name()))
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			r.symbols[string(s.Name()+"."+m.Name())] = "#" + methodAnchor(m)
		}
	}
	for i := range f.Messages().Len() {
		m := f.Messages().Get(i)
		r.symbols[string(m.Name())] = "#" + strings.ToLower(string(m.Name()))
		for i := range m.Fields().Len() {
			name := string(m.Name() + "." + m.Fields().Get(i).Name())
			r.symbols[name] = "#" + strings.ToLower(name)
		}
	}
	for i := range f.Enums().Len() {
		e := f.Enums().Get(i)
		r.symbols[string(e.Name())] = "#" + strings.ToLower(string(e.Name()))
		for i := range e.Values().Len() {
			name := string(e.Values().Get(i).Name())
			r.symbols[name] = "#" + strings.ToLower(name)
		}
	}
}

func methodAnchor(m protoreflect.MethodDescriptor) string {
	return strings.ToLower(string(m.Parent().Name()) + "." + string(m.Name()))
}

// service writes a table of the methods of a service.
func (r *reference) service(t *testing.T, s protoreflect.ServiceDescriptor) {
	t.Helper()
	fmt.Fprintf(r, "## %s\n\n%s\n\n| method | request | response | right | what it does |\n| --- | --- | --- | --- | --- |\n",
		s.Name(), r.comment(s))
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		right, ok := rights[string(s.Name()+"."+m.Name())]
		if !ok {
			t.Errorf("rights lacks %s.%s", s.Name(), m.Name())
		}
		fmt.Fprintf(r, "| <a id=%q></a>`%s` | %s | %s | %s | %s |\n", methodAnchor(m), m.Name(),
			streamed(m.IsStreamingClient())+r.link(m.Input()), streamed(m.IsStreamingServer())+r.link(m.Output()), right,
			strings.ReplaceAll(r.comment(m), "\n\n", " "))
	}
	r.WriteString("\n")
}

func streamed(is bool) string {
	if is {
		return "stream of "
	}
	return ""
}

// message writes a table of the fields of a message.
func (r *reference) message(m protoreflect.MessageDescriptor) {
	fmt.Fprintf(r, "### %s\n\n%s\n\n", m.Name(), r.comment(m))
	if m.Fields().Len() == 0 {
		return
	}
	r.WriteString("| field | number | type | meaning |\n| --- | --- | --- | --- |\n")
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		kind := f.Kind().String()
		switch {
		case f.Enum() != nil:
			kind = r.link(f.Enum())
		case f.Message() != nil:
			kind = r.link(f.Message())
		}
		if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			kind += ", one of `" + string(oneof.Name()) + "`"
		}
		if f.HasOptionalKeyword() || f.IsList() {
			kind = f.Cardinality().String() + " " + kind
		}
		fmt.Fprintf(r, "| <a id=%q></a>`%s` | %d | %s | %s |\n", strings.ToLower(string(m.Name()+"."+f.Name())), f.Name(),
			f.Number(), kind, r.comment(f))
	}
	r.WriteString("\n")
}

// enum writes a table of the values of an enum.
func (r *reference) enum(e protoreflect.EnumDescriptor) {
	fmt.Fprintf(r, "### %s\n\n%s\n\n| value | number | meaning |\n| --- | --- | --- |\n", e.Name(), r.comment(e))
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		fmt.Fprintf(r, "| <a id=%q></a>`%s` | %d | %s |\n", strings.ToLower(string(v.Name())), v.Name(), v.Number(),
			r.comment(v))
	}
	r.WriteString("\n")
}

// link is the name of a message or an enum, with where it is explained.
func (r *reference) link(d protoreflect.Descriptor) string {
	if to, ok := r.symbols[string(d.Name())]; ok && d.ParentFile().Package() == "memoryd.v1" {
		return "[" + string(d.Name()) + "](" + to + ")"
	}
	return "`" + string(d.FullName()) + "`"
}

var (
	newline = regexp.MustCompile(`([^\n])\n([^\n])`)
	symbol  = regexp.MustCompile(`\b[A-Z]\w*(?:\.\w+)?\b`)
)

// comment is the comment of a declaration as Markdown: paragraphs of one line, with links to what it names.
func (r *reference) comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n ", "\n"))
	text = newline.ReplaceAllString(text, "$1 $2")
	text = strings.NewReplacer("*", `\*`, "<", `\<`, "|", `\|`).Replace(text)
	return symbol.ReplaceAllStringFunc(text, func(name string) string {
		to, ok := r.symbols[name]
		if !ok || name == string(d.Name()) || (!strings.ContainsAny(name, "._") && !strings.Contains(name[1:], "Request")) {
			return name // Most words that are names of messages, such as Entry, are mere words.
		}
		return "[" + name + "](" + to + ")"
	})
}
