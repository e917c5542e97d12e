package memory

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
)

// FuzzPath checks that no path escapes, and that a canonical path is its own canonical path.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/memories", "/memories/", "/memories/a/./b//c", "/memories/../etc/passwd", "/memories/%2e%2e/x",
		"/memories/%252e%252e%252fx", `/memories/..\x`, "/memoriesx", "/memories/e\u0301", "/memories/\u202e",
		"/memories/\xff",
		"/memories/" + strings.Repeat("n", 256), "/memories/" + strings.Repeat("a/", 600), "/memories/a\u200cb", "",
		"/", "..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, requested string) {
		p, failed := parsePath(requested)
		if failed != nil {
			if !utf8.ValidString(failed.text) {
				t.Errorf("the error of %q is not UTF-8: %q", requested, failed.text)
			}
			return
		}
		canonical := p.String()
		if canonical != Root && !strings.HasPrefix(canonical, Root+"/") || len(canonical) > MaxPathBytes {
			t.Errorf("%q became %q", requested, canonical)
		}
		for _, name := range p.names {
			if name == "" || name == "." || name == ".." || len(name) > MaxNameBytes || strings.ContainsAny(name, "/\\\x00") ||
				strings.ContainsFunc(name, unicode.IsControl) || toNFC(name) != name {
				t.Errorf("%q has the name %q", requested, name)
			}
		}
		again, failed := parsePath(canonical)
		if failed != nil {
			t.Fatalf("%q became %q, which is refused: %s", requested, canonical, failed.text)
		}
		if !slices.Equal(again.names, p.names) {
			t.Errorf("%q became %q and then %q", requested, canonical, again)
		}
		key := entryKey(p)
		if !p.isRoot() && keyPath(key).String() != canonical {
			t.Errorf("the key of %q says %q", canonical, keyPath(key))
		}
	})
}

// FuzzEdit checks that an edit changes nothing but what it says.
func FuzzEdit(f *testing.F) {
	f.Add("a\nb\n", "b", "x", int64(1))
	f.Add("aaaa", "aaa", "", int64(0))
	f.Add("one\r\ntwo\u2028three\x00", "two", "2\n2", int64(2))
	f.Add("", "x", "\n", int64(1))
	f.Fuzz(func(t *testing.T, text, old, inserted string, line int64) {
		if old != "" {
			edited, failed := replaceOnce("/memories/f", text, old, inserted)
			if at := strings.Index(text, old); failed == nil {
				if want := text[:at] + inserted + text[at+len(old):]; edited.text != want {
					t.Errorf("replace %q in %q: got %q, want %q", old, text, edited.text, want)
				}
				if strings.Contains(text[at+1:], old) {
					t.Errorf("%q is not unique in %q, and was replaced", old, text)
				}
				if edited.snippet() == "" {
					t.Error("the snippet is empty")
				}
			}
		}
		edited, failed := insertLines(text, line, inserted)
		n := int64(strings.Count(text, "\n")) + 1
		if (failed == nil) != (0 <= line && line <= n) {
			t.Fatalf("insert at %d of %d lines: %v", line, n, failed)
		}
		if failed != nil {
			return
		}
		lines := strings.Split(text, "\n")
		want := slices.Insert(lines, int(line), strings.Split(strings.TrimSuffix(inserted, "\n"), "\n")...)
		if edited.text != strings.Join(want, "\n") {
			t.Errorf("insert %q at %d of %q: got %q", inserted, line, text, edited.text)
		}
	})
}

// TestMatches holds the search for overlapping matches against the obvious one.
func TestMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 60, -1).Draw(t, "text")
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 1, 6, -1).Draw(t, "pattern")
		var want []int
		for i := range text {
			if strings.HasPrefix(text[i:], pattern) {
				want = append(want, i)
			}
		}
		if got := slices.Collect(matches(text, pattern)); !slices.Equal(got, want) {
			t.Errorf("%q in %q: got %v, want %v", pattern, text, got, want)
		}
	})
}

func TestParseWholeFloat(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"5.0", 5, true},
		{"-5.0", -5, true},
		{"1e2", 100, true},
		{"1E+2", 100, true},
		{"100e-2", 1, true},
		{"1.50e1", 15, true},
		{"0.0", 0, true},
		{"-0.0", 0, true},
		{"0e999999999999", 0, true},
		{"9223372036854775807.0", 9223372036854775807, true},
		{"-9223372036854775808e0", -9223372036854775808, true},
		{"9223372036854775808.0", 0, false},
		{"1.5", 0, false},
		{"1e-1", 0, false},
		{"1e19", 0, false},
		{"1e1000000000", 0, false},
		{"1e99999999999999999999", 0, false},
		{"true", 0, false},
		{"", 0, false},
	} {
		if got, ok := parseWholeFloat(test.in); ok != test.ok || ok && got != test.want {
			t.Errorf("parseWholeFloat(%q) = %d, %t; want %d, %t", test.in, got, ok, test.want, test.ok)
		}
	}
}

// TestNFC holds toNFC against the library where that is right: where there are no long runs of marks.
func TestNFC(t *testing.T) {
	letters := rapid.RuneFrom([]rune("aeA \u00c5\u212b\u1e9b\u0915\u09c7\u1100\u1161\u11a8\uac00\U0001d15e"),
		unicode.Mn, unicode.Mc, unicode.Hangul, unicode.Latin)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(letters, 0, 30, -1).Draw(t, "s")
		runes, marks := decompose(s)
		if marks > maxMarks {
			t.Skip("the library would change it")
		}
		if got, want := string(compose(runes)), norm.NFC.String(s); got != want {
			t.Errorf("%+q: got %+q, want %+q", s, got, want)
		}
	})
	for in, want := range map[string]string{
		"e" + strings.Repeat("\u0316", 31):                  "e" + strings.Repeat("\u0316", 31),
		"e" + strings.Repeat("\u0316", 40) + "\u0301":       "\u00e9" + strings.Repeat("\u0316", 40),
		"e" + strings.Repeat("\u0301", 40):                  "\u00e9" + strings.Repeat("\u0301", 39),
		strings.Repeat("\u0344", 20):                        strings.Repeat("\u0308\u0301", 20),
		"\u1112\u1161\u11ab" + strings.Repeat("\u0316", 31): "\ud55c" + strings.Repeat("\u0316", 31),
	} {
		if got := toNFC(in); got != want {
			t.Errorf("%+q: got %+q, want %+q", in, got, want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 1536: "1.5K", 5632: "5.5K", 1075: "1.0K", 1076: "1.1K", 1<<20 - 1: "1024.0K",
		1 << 20: "1.0M", 1<<30 - 1: "1024.0M", 1 << 30: "1.0G", 1 << 40: "1024.0G",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %s, want %s", n, got, want)
		}
	}
}

// fillCommand makes a file of every path.
type fillCommand struct{ Create }

func (fillCommand) run(t *tree, paths []Path) (Result, error) {
	t.begin()
	for _, p := range paths {
		if _, err := t.writeFile(p, []byte("x")); err != nil {
			return Result{}, err
		}
	}
	return Result{}, nil
}

// TestDirectoryTooLarge checks that a directory that one transaction cannot move or delete is refused, and that one
// just small enough is moved and deleted.
func TestDirectoryTooLarge(t *testing.T) {
	store := memkv.New()
	t.Cleanup(func() { _ = store.Close() })
	m, err := New(store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const (
		mostMoved   = maxStepWrites / 2 // a move writes every entry twice
		mostDeleted = maxStepWrites / 3 // a delete removes a file of one chunk, its contents and when it was viewed
	)
	fill := func(from, to int) {
		t.Helper()
		for from < to {
			paths := make([]Path, 0, 1000)
			for range min(1000, to-from) {
				paths = append(paths, Path{[]string{"d", fmt.Sprintf("file-%05d", from)}})
				from++
			}
			_, err := m.update(t.Context(), "test", request{}, step{cmd: fillCommand{}, paths: paths})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(cmd Command, want string) {
		t.Helper()
		result, err := m.Do(t.Context(), "test", cmd, Call{})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Content[0].Text; got != want {
			t.Errorf("%s: got %q, want %q", cmd.Name(), got, want)
		}
	}

	tooLarge := func(entries, most int) string {
		return fmt.Sprintf("Error: /memories/d holds %d entries, more than the %d that one command can move or delete. "+
			"Work on parts of it.", entries, most)
	}
	fill(0, mostDeleted+1)
	run(Delete{"/memories/d"}, tooLarge(mostDeleted+1, mostDeleted))
	run(Delete{"/memories/d/file-00000"}, "Successfully deleted /memories/d/file-00000")
	record := func(tx kv.Tx) error { // a view of every file
		records, err := (&tree{reader: tx}).subtree(Path{[]string{"d"}})
		if err != nil {
			return err
		}
		for _, r := range records {
			n, err := r.decode()
			if err != nil {
				return err
			}
			if err := tx.Put(readKey(n.id), encodeRead(readKey(n.id), 1)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := store.Update(t.Context(), "test", record); err != nil {
		t.Fatal(err)
	}
	run(Delete{"/memories/d"}, "Successfully deleted /memories/d")

	ns, err := m.Namespace(t.Context(), "test")
	if err != nil || ns.FileCount != 0 || ns.Size != 0 {
		t.Errorf("after the delete: %+v, %v", ns, err)
	}
	err = store.View(t.Context(), "test", func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{}, func(key, _ []byte) error {
			if key[0] == kv.BulkPrefix || key[0] == readPrefix {
				return fmt.Errorf("left: %x", key)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}

	fill(0, mostMoved+1)
	run(Rename{"/memories/d", "/memories/e"}, tooLarge(mostMoved+1, mostMoved))
	run(Delete{"/memories/d/file-00000"}, "Successfully deleted /memories/d/file-00000")
	run(Rename{"/memories/d", "/memories/e"}, "Successfully renamed /memories/d to /memories/e")
}

// TestRecords checks that a record is read as it was written, and that one that is cut or longer is not read.
func TestRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &node{
			dir:      rapid.Bool().Draw(t, "dir"),
			id:       rapid.Uint64().Draw(t, "id"),
			created:  rapid.Int64().Draw(t, "created"),
			modified: rapid.Int64().Draw(t, "modified"),
			revision: rapid.Int64().Draw(t, "revision"),
			size:     rapid.Int64().Draw(t, "size"),
		}
		if n.dir {
			n.files, n.entries = rapid.Int64().Draw(t, "files"), rapid.Int64().Draw(t, "entries")
		} else {
			n.lines, n.content = rapid.Int64().Draw(t, "lines"), rapid.Int64().Draw(t, "content")
			copy(n.sha256[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sha256"))
		}
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		b := n.encode(key)
		got, err := decodeNode(key, b)
		if err != nil || *got != *n {
			t.Fatalf("got %+v, %v; want %+v", got, err, n)
		}
		if _, err := decodeNode(append(key, 0), b); err == nil {
			t.Error("a record was read under another key")
		}
		flipped := slices.Clone(b)
		flipped[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := decodeNode(key, flipped); err == nil {
			t.Error("a damaged record was read")
		}
		// Other records are as they were written, perhaps by another version.
		bare := b[:len(b)-4]
		if _, err := decodeNode(key, seal(key, append(slices.Clone(bare), 0))); err == nil {
			t.Error("a longer record was read")
		}
		cut := slices.Clone(bare[:rapid.IntRange(0, len(bare)-1).Draw(t, "cut")])
		if _, err := decodeNode(key, seal(key, cut)); err == nil {
			t.Error("a shorter record was read")
		}
	})
}

// Every field of Settings has a name, is stored, and takes its default.
func TestSettings_Complete(t *testing.T) {
	fields := reflect.TypeFor[Settings]().NumField()
	if len(allSettings) != fields {
		t.Fatalf("there are %d settings and %d fields", len(allSettings), fields)
	}
	for i := range fields {
		var s Settings
		field := reflect.ValueOf(&s).Elem().Field(i)
		field.Set(reflect.New(field.Type().Elem()))
		if got := s.or(Settings{}); !reflect.DeepEqual(got, s) {
			t.Errorf("field %d is lost where there is no default", i)
		}
		if got := (Settings{}).or(s); !reflect.DeepEqual(got, s) {
			t.Errorf("field %d does not take its default", i)
		}
		if !allSettings[i].present(&s) {
			t.Errorf("setting %s is not field %d", allSettings[i].name, i)
		}
		h := header{revision: 1, settings: s}
		if got, err := decodeHeader(h.encode()); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("setting %s: got %+v, %v; want it as it was written", allSettings[i].name, got, err)
		}
	}
}

func TestPath_Spelled(t *testing.T) {
	for _, requested := range []string{
		"/memories", "/memories/", "/memories/a", "/memories/a/", "/memories//a", "/memories/./a", "/memories/a/b.md",
		"/memories/a/b.md/.", "/memories/e\u0301", "/memories/\u00e9",
	} {
		p, f := parsePath(requested)
		if f != nil {
			t.Fatal(f)
		}
		if got, want := p.spelled(requested), p.String(); got != want {
			t.Errorf("%q: got %q, want %q", requested, got, want)
		}
	}
}
