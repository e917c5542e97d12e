package client

import (
	"maps"
	"slices"
	"strings"
	"sync"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxRemembered is how many files, and how many other spellings of their paths, a handler remembers for
// GuardStaleEdits. It forgets those first that it has not come across for longest; they are not guarded then.
const maxRemembered = 1000

// noteStale is in the note beside an edit of a text that the model has not seen.
const noteStale = " was changed by someone else since you viewed it"

// guard remembers what the model has seen of files: by the SHA-256 of a file, under its canonical path. A nil guard
// remembers nothing.
type guard struct {
	mu     sync.Mutex
	sums   map[string]string // hex, by canonical path
	recent []string          // the keys of sums, that of the file seen last at the end
	names  map[string]string // canonical paths by the path that was asked for, where that is another
}

func newGuard() *guard {
	return &guard{sums: make(map[string]string), names: make(map[string]string)}
}

// prepare adds to a request what the change is to be made on.
func (g *guard) prepare(req *memoryv1.ExecuteRequest) {
	if g == nil {
		return
	}
	input := readInput([]byte(req.GetInput()))
	g.mu.Lock()
	defer g.mu.Unlock()
	sum, ok := g.sums[g.canonical(input.path)]
	if !ok {
		return
	}
	switch input.command {
	case "create", "insert", "delete":
		req.IfSha256 = &sum
	case "str_replace":
		req.ViewedSha256 = &sum
	}
}

// learn takes in the response of the service.
func (g *guard) learn(req *memoryv1.ExecuteRequest, resp *memoryv1.ExecuteResponse) {
	if g == nil {
		return
	}
	input := readInput([]byte(req.GetInput()))
	g.mu.Lock()
	defer g.mu.Unlock()
	known, entry := g.canonical(input.path), resp.GetEntry()
	switch resp.GetResult().GetReason() {
	case memoryv1.Reason_REASON_UNSPECIFIED:
	case memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND, memoryv1.Reason_REASON_STR_REPLACE_PATH_NOT_FOUND,
		memoryv1.Reason_REASON_INSERT_PATH_NOT_FOUND, memoryv1.Reason_REASON_DELETE_PATH_NOT_FOUND,
		memoryv1.Reason_REASON_RENAME_PATH_NOT_FOUND:
		g.forget(known) // the model knows now that it is gone
		return
	default:
		return
	}
	switch input.command {
	case "delete":
		g.forget(known)
	case "rename":
		g.move(known, entry.GetPath())
	case "view", "create", "insert":
		g.remember(input.path, entry)
	case "str_replace":
		if !isStale(resp.GetResult()) { // else the model has not seen the text around its change
			g.remember(input.path, entry)
		}
	}
}

func isStale(r *memoryv1.ToolResult) bool {
	return slices.ContainsFunc(r.GetContent(), func(c *memoryv1.Content) bool {
		return strings.HasPrefix(c.GetText(), "Note: ") && strings.Contains(c.GetText(), noteStale)
	})
}

// canonical returns the canonical path of a file that is remembered. The service makes paths canonical; what is done
// here as well spares names.
func (g *guard) canonical(path string) string {
	path = withoutEmptySegments(path)
	if name, ok := g.names[path]; ok {
		return name
	}
	return path
}

// withoutEmptySegments returns a path without empty and "." segments.
func withoutEmptySegments(path string) string {
	segments := slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
	return "/" + strings.Join(segments, "/")
}

func (g *guard) remember(requested string, entry *memoryv1.Entry) {
	path := entry.GetPath()
	if entry.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE || entry.GetSha256() == "" {
		g.drop(path) // it may have been a file before
		return
	}
	if name := withoutEmptySegments(requested); name != path {
		if len(g.names) >= maxRemembered {
			clear(g.names)
		}
		g.names[name] = path
	}
	g.set(path, entry.GetSha256())
}

// set makes path the one that was seen last.
func (g *guard) set(path, sum string) {
	g.drop(path)
	if len(g.recent) >= maxRemembered {
		g.drop(g.recent[0])
	}
	g.sums[path] = sum
	g.recent = append(g.recent, path)
}

func (g *guard) drop(path string) {
	if _, ok := g.sums[path]; ok {
		delete(g.sums, path)
		i := slices.Index(g.recent, path)
		g.recent = slices.Delete(g.recent, i, i+1)
	}
}

// forget drops a file, or all below a directory.
func (g *guard) forget(path string) {
	for _, file := range g.below(path) {
		g.drop(file)
	}
	maps.DeleteFunc(g.names, func(_, name string) bool { return isBelow(name, path) })
}

// move takes what is known to the path that a file or directory has got.
func (g *guard) move(from, to string) {
	files := g.below(from)
	sums := make(map[string]string, len(files))
	for _, file := range files {
		sums[file] = g.sums[file]
	}
	g.forget(from)
	for _, file := range files {
		g.set(to+strings.TrimPrefix(file, from), sums[file])
	}
}

// below returns the files that are remembered at or below a path, the one seen last at the end.
func (g *guard) below(path string) []string {
	var files []string
	for _, file := range g.recent {
		if isBelow(file, path) {
			files = append(files, file)
		}
	}
	return files
}

func isBelow(file, path string) bool { return file == path || strings.HasPrefix(file, path+"/") }
