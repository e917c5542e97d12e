package memory_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// model is the tree as a plain map: the text of every file, and every directory.
type model struct {
	files map[string]string
	dirs  map[string]bool
}

var errRefused = errors.New("refused")

func (m *model) exists(p string) bool {
	_, file := m.files[p]
	return file || m.dirs[p]
}

// below returns the paths below a directory.
func (m *model) below(dir string) []string {
	var paths []string
	for _, p := range slices.Concat(slices.Collect(maps.Keys(m.files)), slices.Collect(maps.Keys(m.dirs))) {
		if strings.HasPrefix(p, dir+"/") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// makeParents makes the directories above a path.
func (m *model) makeParents(p string) error {
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		if _, file := m.files[dir]; file {
			return errRefused
		}
	}
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		m.dirs[dir] = true
	}
	return nil
}

func (m *model) write(p, text string, overwrite bool) error {
	if _, file := m.files[p]; m.dirs[p] || file && !overwrite {
		return errRefused
	}
	if err := m.makeParents(p); err != nil {
		return err
	}
	m.files[p] = text
	return nil
}

func (m *model) strReplace(p, old, text string) error {
	current, ok := m.files[p]
	first, last := strings.Index(current, old), strings.LastIndex(current, old)
	if !ok || old == "" || first < 0 || first != last {
		return errRefused
	}
	m.files[p] = strings.Replace(current, old, text, 1)
	return nil
}

func (m *model) insert(p string, line int64, text string) error {
	current, ok := m.files[p]
	lines := strings.Split(current, "\n")
	if !ok || line < 0 || line > int64(len(lines)) {
		return errRefused
	}
	added := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	m.files[p] = strings.Join(slices.Insert(lines, int(line), added...), "\n")
	return nil
}

func (m *model) delete(p string) error {
	if p == memory.Root || !m.exists(p) {
		return errRefused
	}
	for _, q := range append(m.below(p), p) {
		delete(m.files, q)
		delete(m.dirs, q)
	}
	return nil
}

func (m *model) rename(from, to string) error {
	if from == memory.Root || m.exists(to) || !m.exists(from) || strings.HasPrefix(to, from+"/") {
		return errRefused
	}
	if err := m.makeParents(to); err != nil {
		return err
	}
	for _, p := range append(m.below(from), from) {
		moved := to + strings.TrimPrefix(p, from)
		if text, ok := m.files[p]; ok {
			delete(m.files, p)
			m.files[moved] = text
		} else {
			delete(m.dirs, p)
			m.dirs[moved] = true
		}
	}
	return nil
}

// tree describes every entry, in the order of List.
func (m *model) tree() []string {
	var all []string
	for _, p := range m.below(memory.Root) {
		if text, ok := m.files[p]; ok {
			all = append(all, fmt.Sprintf("%s %q", p, text))
			continue
		}
		size, files := 0, 0
		for _, q := range m.below(p) {
			if text, ok := m.files[q]; ok {
				size += len(text)
				files++
			}
		}
		all = append(all, fmt.Sprintf("%s/ %d bytes in %d files", p, size, files))
	}
	slices.Sort(all)
	return all
}

// listing is what view shows of a directory.
func (m *model) listing(dir string) []string {
	shown := []string{}
	var show func(dir string, levels int)
	show = func(dir string, levels int) {
		var names []string
		for _, p := range m.below(dir) {
			if name := strings.TrimPrefix(p, dir+"/"); !strings.Contains(name, "/") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if strings.HasPrefix(name, ".") || name == "node_modules" {
				continue
			}
			p := dir + "/" + name
			shown = append(shown, p)
			if m.dirs[p] && levels > 1 {
				show(p, levels-1)
			}
		}
	}
	show(dir, 2)
	return shown
}

// TestModel drives the tree and a plain map side by side.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t, memory.Settings{})
		want := &model{files: map[string]string{}, dirs: map[string]bool{}}
		name := rapid.SampledFrom([]string{"a", "a-b", "a.md", "b", "é", ".h", "node_modules"})
		drawPath := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(append([]string{memory.Root}, rapid.SliceOfN(name, 0, 4).Draw(t, "names")...), "/")
		})
		text := rapid.StringOfN(rapid.RuneFrom([]rune("xy\n")), 0, 8, -1)
		short := rapid.StringOfN(rapid.RuneFrom([]rune("xy\n")), 0, 2, -1)

		var revision int64
		step := func(cmd memory.Command, modelErr error) {
			result := do(t, m, cmd)
			if got, want := result.IsError(), modelErr != nil; got != want {
				t.Fatalf("%#v: is_error %t, want %t: %s", cmd, got, want, result.Content[0].Text)
			}
			if !result.IsError() {
				revision++
				if result.Revision != revision || cmd.Name() != "delete" && result.Entry.Revision != revision {
					t.Fatalf("%#v: revision %d, of the entry %d; want %d", cmd, result.Revision, result.Entry.Revision, revision)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				p, s := drawPath.Draw(t, "path"), text.Draw(t, "text")
				modelErr := errRefused
				if p != memory.Root {
					modelErr = want.write(p, s, false)
				}
				step(memory.Create{Path: p, FileText: s}, modelErr)
			},
			"put": func(t *rapid.T) {
				p, s := drawPath.Draw(t, "path"), text.Draw(t, "text")
				modelErr := errRefused
				if p != memory.Root {
					modelErr = want.write(p, s, true)
				}
				step(memory.Put{Path: p, Data: []byte(s)}, modelErr)
			},
			"str_replace": func(t *rapid.T) {
				p, old, s := drawPath.Draw(t, "path"), short.Draw(t, "old"), text.Draw(t, "text")
				step(memory.StrReplace{Path: p, OldStr: old, NewStr: s}, want.strReplace(p, old, s))
			},
			"insert": func(t *rapid.T) {
				p, line, s := drawPath.Draw(t, "path"), rapid.Int64Range(-1, 5).Draw(t, "line"), text.Draw(t, "text")
				step(memory.Insert{Path: p, InsertLine: line, InsertText: s}, want.insert(p, line, s))
			},
			"delete": func(t *rapid.T) {
				p := drawPath.Draw(t, "path")
				step(memory.Delete{Path: p}, want.delete(p))
			},
			"rename": func(t *rapid.T) {
				from, to := drawPath.Draw(t, "from"), drawPath.Draw(t, "to")
				step(memory.Rename{OldPath: from, NewPath: to}, want.rename(from, to))
			},
			"view": func(t *rapid.T) {
				p := drawPath.Draw(t, "path")
				result := do(t, m, memory.View{Path: p})
				_, file := want.files[p]
				if got, want := !result.IsError(), p == memory.Root || want.exists(p); got != want {
					t.Fatalf("view %s: exists %t, want %t", p, got, want)
				}
				if result.IsError() || file {
					return
				}
				shown := []string{}
				for _, e := range result.Entries {
					shown = append(shown, e.Path)
				}
				if diff := cmp.Diff(want.listing(p), shown); diff != "" {
					t.Fatalf("view %s (-want +got)\n%s", p, diff)
				}
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(want.tree(), wholeTree(t, m)); diff != "" {
					t.Fatalf("tree (-want +got)\n%s", diff)
				}
				if err := m.Check(t.Context(), namespace); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// wholeTree describes every entry as model.tree does. It lists page by page.
func wholeTree(t *rapid.T, m *memory.Memory) []string {
	var all []string
	after := ""
	for {
		result, more, err := m.List(t.Context(), namespace, memory.Root, after, 3)
		if err != nil || result.IsError() {
			t.Fatalf("list: %v %v", err, result)
		}
		for _, e := range result.Entries {
			after = e.Path
			if e.Dir {
				all = append(all, fmt.Sprintf("%s/ %d bytes in %d files", e.Path, e.Size, e.FileCount))
				continue
			}
			read, data, err := m.Read(t.Context(), namespace, e.Path)
			if err != nil || read.IsError() || int64(len(data)) != e.Size {
				t.Fatalf("read %s: %v %v", e.Path, err, read)
			}
			all = append(all, fmt.Sprintf("%s %q", e.Path, data))
		}
		if !more {
			slices.Sort(all)
			return all
		}
	}
}
