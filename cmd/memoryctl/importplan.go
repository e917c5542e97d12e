package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// maxPlannedNames bounds what an archive can make memoryctl remember: the entries of the archive and the directories
// above them.
const maxPlannedNames = 250_000

var errTooManyNames = fmt.Errorf("the archive has more than %d files and directories", maxPlannedNames)

// importPlan decides what becomes of the entries of one archive, in their order. It does nothing itself.
type importPlan struct {
	prefix       string // /memories or below
	maxFileBytes int64
	memory       *memoryNames
	claims       map[string]*claim // of the entries before, by folded path
	directories  []*claim          // entries that are directories
	entries      int               // of the archive, so far
	names        int               // that are claimed
}

// memoryNames are the entries that a memory has.
type memoryNames struct {
	entries map[string]*memoryv1.Entry // by path
	folded  map[string]string          // a path by its folded form
}

func newMemoryNames(entries []*memoryv1.Entry) *memoryNames {
	m := &memoryNames{entries: make(map[string]*memoryv1.Entry), folded: make(map[string]string)}
	for _, e := range entries {
		m.entries[e.GetPath()] = e
		m.folded[foldName(e.GetPath())] = e.GetPath()
	}
	return m
}

// claim is a path that an entry of the archive takes.
type claim struct {
	path     string // as the archive spells it
	dir      bool
	hasEntry bool // of a directory: something else in the archive is in it
}

// planned is what becomes of an entry.
type planned struct {
	path    string // as the service will spell it; empty for what is not imported and needs no mention
	exists  bool   // there is a file
	refusal string // why it is not imported
}

func (p *importPlan) entry(h *tar.Header) (planned, error) {
	if p.entries++; p.entries > maxPlannedNames {
		return planned{}, errTooManyNames
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return planned{refusal: refuseGlobalHeader(h)}, nil
	}
	path, refusal := memoryPath(p.prefix, h.Name)
	if refusal == "" {
		refusal = refuseKind(h)
	}
	dir := h.Typeflag == tar.TypeDir
	switch {
	case refusal != "":
		return planned{refusal: refusal}, nil
	case h.Size > p.maxFileBytes && !dir:
		return planned{refusal: fmt.Sprintf("it has %d bytes, and a file may have %d", h.Size, p.maxFileBytes)}, nil
	case path == rootPath && !dir:
		return planned{refusal: "a file cannot be " + rootPath + " itself"}, nil
	case path == rootPath:
		return planned{}, nil
	}
	exists, refusal, err := p.claim(path, dir)
	if refusal != "" || err != nil {
		return planned{refusal: refusal}, err
	}
	if dir {
		return planned{}, nil // empty ones come at the end
	}
	return planned{path: norm.NFC.String(path), exists: exists}, nil
}

// claim takes a path and all directories above it, or tells why something else has it. It tells too whether the
// memory has the entry.
func (p *importPlan) claim(path string, dir bool) (exists bool, refusal string, err error) {
	folded := foldName(path)
	// Folding keeps the slashes, so that the directories above are found by cutting both in step.
	var taken []*claim
	var keys []string
	for cut, key := path, folded; cut != rootPath; cut, key = parent(cut), parent(key) {
		isDir := dir || cut != path
		if refusal := p.refuseBeside(cut, key, isDir); refusal != "" {
			return false, refusal, nil
		}
		taken, keys = append(taken, &claim{path: cut, dir: isDir, hasEntry: cut != path}), append(keys, key)
	}
	if !dir && p.claims[folded] != nil {
		return false, "the archive has it twice", nil
	}
	for i, key := range keys {
		if earlier := p.claims[key]; earlier != nil {
			earlier.hasEntry = earlier.hasEntry || taken[i].hasEntry
			taken[i] = earlier
			continue
		}
		if p.names++; p.names > maxPlannedNames {
			return false, "", errTooManyNames
		}
		p.claims[key] = taken[i]
	}
	if dir {
		p.directories = append(p.directories, taken[0])
	}
	return p.memory.entries[path] != nil, "", nil
}

// refuseBeside tells why a path cannot be used beside what the archive had before and what the memory has.
func (p *importPlan) refuseBeside(path, key string, dir bool) string {
	kind := map[bool]string{false: "a file", true: "a directory"}
	if c := p.claims[key]; c != nil {
		switch {
		case c.path != path:
			return fmt.Sprintf("%q differs only in case or Unicode form from %q, which is in the archive too", path, c.path)
		case c.dir != dir:
			return fmt.Sprintf("the archive has %q as %s too", path, kind[c.dir])
		}
	}
	if e := p.memory.entries[path]; e != nil {
		if isDir := e.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY; isDir != dir {
			return fmt.Sprintf("the memory has %q as %s", path, kind[isDir])
		}
		return ""
	}
	if other, ok := p.memory.folded[key]; ok {
		return fmt.Sprintf("%q differs only in case or Unicode form from %q, which the memory has", path, other)
	}
	return ""
}

// emptyDirectories returns the directories to make: those in which the archive has nothing, and which the memory has
// not.
func (p *importPlan) emptyDirectories() []string {
	var paths []string
	for _, d := range p.directories {
		if !d.hasEntry && p.memory.entries[d.path] == nil {
			paths = append(paths, norm.NFC.String(d.path))
		}
		d.hasEntry = true // an archive may name a directory twice
	}
	return paths
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// refuseKind tells why an entry is no file or directory that can be imported.
func refuseKind(h *tar.Header) string {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "it is a sparse file"
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return ""
	case tar.TypeSymlink:
		return "it is a symbolic link"
	case tar.TypeLink:
		return "it is a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "it is a device"
	case tar.TypeFifo:
		return "it is a named pipe"
	case tar.TypeGNUSparse:
		return "it is a sparse file"
	default:
		return fmt.Sprintf("it is of the type %q, which is no file", h.Typeflag)
	}
}

// refuseGlobalHeader tells why a header that is about all entries after it is not taken. That of git archive has only a
// comment and is passed over.
func refuseGlobalHeader(h *tar.Header) string {
	for key := range h.PAXRecords {
		if key != "comment" {
			return "a global header would change the entries after it"
		}
	}
	return ""
}

// checkPrefix tells why a path cannot be the directory to import below.
func checkPrefix(prefix string) (string, error) {
	if prefix != rootPath && !strings.HasPrefix(prefix, rootPath+"/") {
		return "", errors.New("want /memories or a path below it")
	}
	path, refusal := memoryPath(rootPath, prefix)
	if refusal != "" {
		return "", errors.New(refusal)
	}
	return path, nil
}
