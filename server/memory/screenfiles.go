package memory

import (
	"context"
	"errors"
	"time"
)

// Limits of a page of ScreenFiles.
const (
	screenPageEntries = 1000
	screenPageBytes   = 4 << 20 // of files, except that one file is always read
	screenPageTime    = 5 * time.Second
	// maxFileSecrets is how many findings are told of one file, so that the answer fits into a message.
	maxFileSecrets = 100
)

// StoredSecret is a place in a file that looks like a secret.
type StoredSecret struct {
	Path string
	Rule string
	Line int64 // from 1
}

// SecretsPage is what ScreenFiles has found in a part of the files.
type SecretsPage struct {
	// Secrets are in the order of List, and at most 100 of a file.
	Secrets []StoredSecret
	// Files is how many files were searched for the page.
	Files int
	// Next is the after of the next page, "" on the last.
	Next string
}

// storedText is a file that was read to be searched.
type storedText struct{ path, text string }

// ScreenFiles searches files of a namespace for secrets, whatever its settings, and tells of doubtful ones too. after
// is Next of the page before, "" on the first. The files of a page are read at once and searched after that, so that
// nobody waits for it.
func (m *Memory) ScreenFiles(ctx context.Context, namespace, after string) (SecretsPage, error) {
	if m.screener == nil {
		return SecretsPage{}, errors.New("search for secrets: there is no screener")
	}
	var last Path
	if after != "" {
		p, f := parsePath(after)
		if f != nil {
			return SecretsPage{}, &InvalidError{Field: "page_token", Text: "page_token is not one of this search"}
		}
		last = p
	}
	var texts []storedText
	var next string
	err := m.view(ctx, namespace, func(t *tree) (err error) {
		texts, next, err = t.textsAfter(last)
		return err
	})
	if err != nil {
		return SecretsPage{}, err
	}
	page := SecretsPage{Next: next}
	start := m.now()
	for i, file := range texts {
		if i > 0 && m.now().Sub(start) > screenPageTime {
			page.Next = texts[i-1].path
			break
		}
		page.Files++
		if isBinary(file.text) {
			continue
		}
		found, err := newScanner(m.screener, namespace, newText(file.text)).find(ctx, file.text)
		if err != nil {
			return SecretsPage{}, err
		}
		for _, f := range found[:min(len(found), maxFileSecrets)] {
			page.Secrets = append(page.Secrets, StoredSecret{file.path, f.Rule, int64(f.Line)})
		}
	}
	return page, nil
}

// textsAfter reads the files that come after an entry, as many as a page has. next is where the following page begins,
// "" where there is none.
func (t *tree) textsAfter(last Path) (texts []storedText, next string, err error) {
	entries, more, err := t.entriesAfter(Path{}, last, screenPageEntries)
	if err != nil || len(entries) == 0 {
		return nil, "", err
	}
	var files []Path
	var keys [][]byte
	var bytes int64
	for i, e := range entries {
		if e.Dir {
			continue
		}
		if bytes += e.Size; len(files) > 0 && bytes > screenPageBytes {
			entries, more = entries[:i], true
			break
		}
		p, f := parsePath(e.Path)
		if f != nil {
			return nil, "", f
		}
		files, keys = append(files, p), append(keys, entryKey(p))
	}
	if more {
		next = entries[len(entries)-1].Path
	}
	values, err := t.reader.Get(keys...)
	if err != nil {
		return nil, "", err
	}
	for i, p := range files {
		n, err := decodeNode(keys[i], values[i])
		if err != nil {
			return nil, "", err
		}
		data, err := t.readFile(p, n)
		if err != nil {
			return nil, "", err
		}
		texts = append(texts, storedText{p.String(), string(data)})
	}
	return texts, next, nil
}
