package agentkit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

const namespace = "acme/shop"

// memory is a service with the memory of one project, as the tests and the model see it.
type memory struct {
	*servertest.Server
}

func newMemory(t *testing.T, opts ...servertest.Option) memory {
	t.Helper()
	return memory{servertest.New(t, opts...)}
}

func (m memory) project(opts ...Option) *Project { return New(m.Client, namespace, opts...) }

// tool executes a tool call of the model.
func (m memory) tool(t *testing.T, input map[string]any) {
	t.Helper()
	encoded, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	if result := m.Client.Handler(namespace).Handle(t.Context(), encoded); result.IsError {
		t.Fatalf("tool call %s: %s", encoded, result.Text())
	}
}

func (m memory) create(t *testing.T, path, text string) {
	t.Helper()
	m.tool(t, map[string]any{"command": "create", "path": path, "file_text": text})
}

func (m memory) delete(t *testing.T, path string) {
	t.Helper()
	m.tool(t, map[string]any{"command": "delete", "path": path})
}

func (m memory) rename(t *testing.T, from, to string) {
	t.Helper()
	m.tool(t, map[string]any{"command": "rename", "old_path": from, "new_path": to})
}

// put stores a file, whatever is there.
func (m memory) put(t *testing.T, path, content string) {
	t.Helper()
	header := &memoryv1.PutHeader{Namespace: namespace, Path: path}
	resp, err := m.Client.Put(t.Context(), header, strings.NewReader(content))
	if err != nil || resp.GetResult().GetIsError() {
		t.Fatalf("put %s: %v, %v", path, resp, err)
	}
}

// read returns the content of a file, "" where there is none.
func (m memory) read(t *testing.T, path string) string {
	t.Helper()
	var content bytes.Buffer
	if _, err := m.Client.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: path}, &content); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

// files returns the paths of all files but those of the package.
func (m memory) files(t *testing.T) []string {
	t.Helper()
	paths, err := m.project().changedSince(t.Context(), -1)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// open returns the names of the sessions that are on record.
func (m memory) open(t *testing.T) []string {
	t.Helper()
	entries, err := m.project().list(t.Context(), RecordsDir)
	if err != nil {
		t.Fatal(err)
	}
	records, err := m.project().records(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Session)
	}
	return names
}

func (m memory) resume(t *testing.T, session string, opts ...Option) *Session {
	t.Helper()
	s, err := m.project(opts...).Resume(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (m memory) close(t *testing.T, s *Session, o Outcome) {
	t.Helper()
	if err := s.Close(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (m memory) checkFile(t *testing.T, path, want string) {
	t.Helper()
	if diff := cmp.Diff(want, m.read(t, path)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func checkErrorHas(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}
