package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// TestRepeatedRequest repeats every writing command: it has one effect, and the same answer each time.
func TestRepeatedRequest(t *testing.T) {
	large := strings.Repeat("x", 300<<10) // its snippet takes several values
	commands := []memory.Command{
		memory.Create{Path: "/memories/f", FileText: large + "\nb\n"},
		memory.Insert{Path: "/memories/f", InsertLine: 1, InsertText: "c"},
		memory.StrReplace{Path: "/memories/f", OldStr: "b", NewStr: "d"},
		memory.Put{Path: "/memories/g", Data: []byte{0xff}},
		memory.Rename{OldPath: "/memories/g", NewPath: "/memories/d/h"},
		memory.Delete{Path: "/memories/d"},
		memory.Create{Path: "/memories/g", FileText: "later"},
	}
	replays := 0
	m := newMemoryWith(t, memory.Options{Replayed: func() { replays++ }})
	call := func(i int) memory.Call { return memory.Call{RequestID: fmt.Sprintf("request %d", i)} }
	var first []memory.Result
	for i, cmd := range commands {
		result, err := m.Do(t.Context(), namespace, cmd, call(i))
		if err != nil || result.IsError() {
			t.Fatalf("%s: %v %v", cmd.Name(), result, err)
		}
		first = append(first, result)
	}
	before, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for i, cmd := range commands {
		again, err := m.Do(t.Context(), namespace, cmd, call(i))
		if err != nil {
			t.Fatalf("%s again: %v", cmd.Name(), err)
		}
		if diff := cmp.Diff(first[i], again); diff != "" {
			t.Errorf("%s again (-first +again)\n%.2000s", cmd.Name(), diff)
		}
	}
	after, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something changed (-before +after)\n%s", diff)
	}
	if replays != len(commands) {
		t.Errorf("got %d replays, want %d", replays, len(commands))
	}
}

// TestReusedRequestID uses an id for something else, which changes nothing, and in another namespace, which is free.
func TestReusedRequestID(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	call := memory.Call{RequestID: "id"}
	insert := memory.Insert{Path: "/memories/f", InsertText: "x"}
	// A failure is not recorded.
	if result, err := m.Do(t.Context(), namespace, insert, call); err != nil || !result.IsError() {
		t.Fatalf("insert into nothing: %v %v", result, err)
	}
	must(t, m, memory.Create{Path: "/memories/f"})
	if result, err := m.Do(t.Context(), namespace, insert, call); err != nil || result.IsError() {
		t.Fatalf("insert: %v %v", result, err)
	}
	for _, other := range []memory.Command{
		memory.Insert{Path: "/memories/f", InsertText: "y"},
		memory.Insert{Path: "/memories/f", InsertLine: 1, InsertText: "x"},
		memory.Delete{Path: "/memories/f"},
		memory.Create{Path: "/memories/missing/../x"},
	} {
		result, err := m.Do(t.Context(), namespace, other, call)
		if !errors.Is(err, memory.ErrRequestIDReused) && !result.IsError() {
			t.Errorf("%#v: %v %v", other, result, err)
		}
	}
	if _, err := m.UpdateSettings(t.Context(), namespace,
		memory.SettingsChange{Names: []string{"view_max_chars"}}, "id"); !errors.Is(err, memory.ErrRequestIDReused) {
		t.Errorf("update settings: %v", err)
	}
	if _, data, err := m.Read(t.Context(), namespace, "/memories/f"); err != nil || string(data) != "x\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if result, err := m.Do(t.Context(), "other", memory.Create{Path: "/memories/f"}, call); err != nil || result.IsError() {
		t.Errorf("in another namespace: %v %v", result, err)
	}
}

// TestRequestWindow lets recorded responses grow old: their ids are free then, and a few of them go with every update.
func TestRequestWindow(t *testing.T) {
	now := testTime
	store := kvtest.Harsh(memkv.New())
	defer store.Close()
	m, err := memory.New(store, memory.Options{RequestWindow: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(id string) {
		t.Helper()
		call := memory.Call{RequestID: id}
		result, err := m.Do(t.Context(), namespace, memory.Insert{Path: "/memories/f", InsertText: "x"}, call)
		if err != nil || result.IsError() {
			t.Fatalf("%v %v", result, err)
		}
	}
	lines := func() int {
		t.Helper()
		_, data, err := m.Read(t.Context(), namespace, "/memories/f")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
	records := func() int {
		t.Helper()
		n := 0
		err := store.View(t.Context(), namespace, func(r kv.Reader) error {
			count := func(_, _ []byte) error { n++; return nil }
			return errors.Join(r.Scan(kv.ScanOptions{Prefix: []byte("m"), KeysOnly: true}, count),
				r.Scan(kv.ScanOptions{Prefix: []byte("o"), KeysOnly: true}, count))
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	must(t, m, memory.Create{Path: "/memories/f"})
	for i := range 9 {
		insert(fmt.Sprint(i))
	}
	now = now.Add(time.Hour)
	insert("3") // the last moment
	if got := lines(); got != 9 {
		t.Errorf("within the window: %d lines, want 9", got)
	}
	now = now.Add(1)
	insert("3")
	if got := lines(); got != 10 {
		t.Errorf("after the window: %d lines, want 10", got)
	}
	insert("3")
	if got := lines(); got != 10 {
		t.Errorf("repeated after the window: %d lines, want 10", got)
	}
	for range 4 {
		insert(fmt.Sprint("new", now.UnixNano()))
		now = now.Add(1)
	}
	if got, want := records(), 5; got != want { // the new ones
		t.Errorf("%d records are left, want %d", got, want)
	}
	if err := m.DeleteNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if scopes, err := store.Scopes(t.Context(), "", 9); err != nil || len(scopes) > 0 {
		t.Errorf("left: %v %v", scopes, err)
	}
}

// TestSweep records responses under ids in any order, with some that take several values, and lets them grow old: as
// new ones are recorded, the old ones go, wherever they are among the others.
func TestSweep(t *testing.T) {
	now := testTime
	store := kvtest.Harsh(memkv.New())
	defer store.Close()
	m, err := memory.New(store, memory.Options{RequestWindow: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(id string) {
		t.Helper()
		call := memory.Call{RequestID: id}
		result, err := m.Do(t.Context(), namespace, memory.Insert{Path: "/memories/f", InsertText: "x"}, call)
		if err != nil || result.IsError() {
			t.Fatalf("%v %v", result, err)
		}
	}
	values := func() int {
		t.Helper()
		n := 0
		err := store.View(t.Context(), namespace, func(r kv.Reader) error {
			count := func(_, _ []byte) error { n++; return nil }
			return errors.Join(r.Scan(kv.ScanOptions{Prefix: []byte("m"), KeysOnly: true}, count),
				r.Scan(kv.ScanOptions{Prefix: []byte("o"), KeysOnly: true}, count))
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	must(t, m, memory.Create{Path: "/memories/f"})
	large := strings.Repeat("x", 900<<10) // the snippet of an edit, in eight values
	must(t, m, memory.Create{Path: "/memories/large", FileText: large + "\na"})
	edit := memory.StrReplace{Path: "/memories/large", OldStr: "\na", NewStr: "\nb"}
	if result, err := m.Do(t.Context(), namespace, edit, memory.Call{RequestID: "session 2/large"}); err != nil ||
		result.IsError() {
		t.Fatalf("%v %v", result, err)
	}
	// Two sessions, of which one began later and goes on in front of the other.
	for i := range 40 {
		insert(fmt.Sprint("session 2/", i))
	}
	before := values()
	now = now.Add(time.Hour + 1)
	const updates = 40
	for i := range updates {
		insert(fmt.Sprint("session 1/", i))
		if got, most := values(), before+updates; got > most {
			t.Fatalf("%d values are left after %d updates, want at most %d", got, i+1, most)
		}
	}
	if got, want := values(), updates; got != want {
		t.Errorf("%d values are left, want %d, of what is within the window", got, want)
	}
}

// TestSweep_Large records nothing but responses that take several values, under ids that ascend: those beyond the window
// go as fast as others come.
func TestSweep_Large(t *testing.T) {
	now := testTime
	store := kvtest.Harsh(memkv.New())
	defer store.Close()
	m, err := memory.New(store, memory.Options{RequestWindow: 10 * time.Second, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 600<<10) // the snippet of an edit, in five values
	must(t, m, memory.Create{Path: "/memories/f", FileText: long + "\n0"})
	const updates = 60
	for i := range updates {
		now = now.Add(time.Second)
		edit := memory.StrReplace{Path: "/memories/f", OldStr: fmt.Sprint("\n", i), NewStr: fmt.Sprint("\n", i+1)}
		result, err := m.Do(t.Context(), namespace, edit, memory.Call{RequestID: fmt.Sprintf("%012d", i)})
		if err != nil || result.IsError() {
			t.Fatalf("%v %v", result, err)
		}
	}
	heads, parts := 0, 0
	err = store.View(t.Context(), namespace, func(r kv.Reader) error {
		count := func(n *int) func(_, _ []byte) error { return func(_, _ []byte) error { *n++; return nil } }
		return errors.Join(r.Scan(kv.ScanOptions{Prefix: []byte("m"), KeysOnly: true}, count(&heads)),
			r.Scan(kv.ScanOptions{Prefix: []byte("o"), KeysOnly: true}, count(&parts)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if heads < 10 || heads > 20 || parts != 5*heads {
		t.Errorf("%d responses in %d more values are left, want those of 10 s, and at most as many more, in 5 each", heads, parts)
	}
}

// damagedValue is a store in which the value of one key is damaged, as a scan finds out.
type damagedValue struct {
	kv.Store
	key []byte
}

func (s *damagedValue) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	return s.Store.Update(ctx, scope, func(tx kv.Tx) error { return fn(damagedTx{tx, s}) })
}

type damagedTx struct {
	kv.Tx
	store *damagedValue
}

func (tx damagedTx) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	return tx.Tx.Scan(opts, func(key, value []byte) error {
		if !opts.KeysOnly && bytes.Equal(key, tx.store.key) {
			return kv.ErrCorrupt
		}
		return fn(key, value)
	})
}

// TestSweep_Damaged lets a recorded response be damaged: the namespace can be changed, and old responses that are not
// near it go.
func TestSweep_Damaged(t *testing.T) {
	now := testTime
	store := &damagedValue{Store: memkv.New()}
	defer store.Close()
	m, err := memory.New(store, memory.Options{RequestWindow: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(id string) {
		t.Helper()
		call := memory.Call{RequestID: id}
		result, err := m.Do(t.Context(), namespace, memory.Insert{Path: "/memories/f", InsertText: "x"}, call)
		if err != nil || result.IsError() {
			t.Fatalf("%v %v", result, err)
		}
	}
	keys := func() (keys [][]byte) {
		t.Helper()
		err := store.View(t.Context(), namespace, func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{Prefix: []byte("m"), KeysOnly: true}, func(key, _ []byte) error {
				keys = append(keys, bytes.Clone(key))
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	must(t, m, memory.Create{Path: "/memories/f"})
	for i := range 40 {
		insert(fmt.Sprintf("a%03d", i))
	}
	store.key = keys()[20]
	now = now.Add(time.Hour + 1)
	for i := range 20 {
		insert(fmt.Sprintf("b%03d", i))
	}
	left := keys()
	if got, most := len(left), 20+8; got > most {
		t.Errorf("%d responses are left, want at most %d", got, most)
	}
	if !slices.ContainsFunc(left, func(key []byte) bool { return bytes.Equal(key, store.key) }) {
		t.Error("the damaged one is gone")
	}
}

func TestPreconditions(t *testing.T) {
	m := newMemory(t, memory.Settings{CreateOnExisting: new(memory.CreateOverwrite)})
	file := must(t, m, memory.Create{Path: "/memories/f", FileText: "a\n"}).Entry
	dir := must(t, m, memory.Create{Path: "/memories/d/f", FileText: "a\n"})
	must(t, m, memory.Insert{Path: "/memories/d/f", InsertText: "b"}) // the namespace goes on, the file does not
	commands := func(path string) []memory.Command {
		return []memory.Command{
			memory.Create{Path: path, FileText: "new"},
			memory.Put{Path: path, Data: []byte("new")},
			memory.StrReplace{Path: path, OldStr: "a", NewStr: "new"},
			memory.Insert{Path: path, InsertText: "new"},
			memory.Rename{OldPath: path, NewPath: "/memories/new"},
			memory.Delete{Path: path},
		}
	}
	other := file.SHA256
	other[0]++
	for _, cmd := range commands("/memories/f") {
		for name, call := range map[string]memory.Call{
			"revision 0":      {IfRevision: new(int64(0))},
			"an old revision": {IfRevision: new(file.Revision - 1)},
			"the namespace's": {IfRevision: new(dir.Revision + 1)},
			"another text":    {IfSHA256: &other},
			"only one holds":  {IfRevision: &file.Revision, IfSHA256: &other},
		} {
			result, err := m.Do(t.Context(), namespace, cmd, call)
			want := "Error: /memories/f was changed by someone else since you viewed it. View it again before you change it."
			if err != nil || result.Reason != memory.ReasonPreconditionFailed || result.Content[0].Text != want {
				t.Errorf("%s if %s: %v %v", cmd.Name(), name, result, err)
			}
		}
		fresh := newMemory(t, memory.Settings{CreateOnExisting: new(memory.CreateOverwrite)})
		file := must(t, fresh, memory.Create{Path: "/memories/f", FileText: "a\n"}).Entry
		call := memory.Call{IfRevision: &file.Revision, IfSHA256: &file.SHA256}
		if result, err := fresh.Do(t.Context(), namespace, cmd, call); err != nil || result.IsError() {
			t.Errorf("%s if both hold: %v %v", cmd.Name(), result, err)
		}
	}
	for name, test := range map[string]struct {
		cmd    memory.Command
		call   memory.Call
		reason memory.Reason
	}{
		"a new file that must not exist": {memory.Create{Path: "/memories/n"}, memory.Call{IfRevision: new(int64(0))}, 0},
		"a new file that must exist": {
			memory.Create{Path: "/memories/m"}, memory.Call{IfSHA256: &file.SHA256}, memory.ReasonPreconditionFailed,
		},
		"existence comes first": {
			memory.Delete{Path: "/memories/m"}, memory.Call{IfSHA256: &file.SHA256}, memory.ReasonDeletePathNotFound,
		},
		"a directory has no text": {
			memory.Delete{Path: "/memories/d"}, memory.Call{IfSHA256: new([32]byte)}, memory.ReasonPreconditionFailed,
		},
		"the match comes later": {
			memory.StrReplace{Path: "/memories/f", OldStr: "z"},
			memory.Call{IfSHA256: &other},
			memory.ReasonPreconditionFailed,
		},
	} {
		if result, err := m.Do(t.Context(), namespace, test.cmd, test.call); err != nil || result.Reason != test.reason {
			t.Errorf("%s: %v %v, want reason %d", name, result, err, test.reason)
		}
	}
}

// TestViewedText edits a file that is not the one that was viewed.
func TestViewedText(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	viewed := must(t, m, memory.Create{Path: "/memories/f", FileText: "a\nb\n"}).Entry.SHA256
	edit := func(old, text string) memory.Result {
		t.Helper()
		cmd := memory.StrReplace{Path: "/memories//f", OldStr: old, NewStr: text}
		result, err := m.Do(t.Context(), namespace, cmd, memory.Call{ViewedSHA256: &viewed})
		if err != nil || result.IsError() {
			t.Fatalf("%v %v", result, err)
		}
		return result
	}
	if got := edit("a", "A").Content; len(got) != 1 {
		t.Errorf("the file as it was viewed: %v", got)
	}
	got := edit("b", "B").Content
	want := "Note: /memories//f was changed by someone else since you viewed it; your change was made to the newer text"
	if len(got) != 2 || got[1].Text != want {
		t.Errorf("got %q", got)
	}
}

func TestBatch(t *testing.T) {
	m := newMemory(t, memory.Settings{})
	batch := func(id string, commands ...memory.Command) memory.BatchResult {
		t.Helper()
		all := make([]memory.BatchCommand, len(commands))
		for i, cmd := range commands {
			all[i].Command = cmd
		}
		result, err := m.Batch(t.Context(), namespace, all, id)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	commands := []memory.Command{
		memory.Create{Path: "/memories/d/f", FileText: "a\n"},
		memory.Insert{Path: "/memories/d/f", InsertLine: 1, InsertText: "b"},
		memory.View{Path: "/memories"},
		memory.Rename{OldPath: "/memories/d", NewPath: "/memories/e"},
		memory.View{Path: "/memories/e/f"},
	}
	done := batch("id", commands...)
	if done.FailedIndex != -1 || done.Failed.IsError() || len(done.Results) != len(commands) {
		t.Fatalf("got %+v", done)
	}
	if got := done.Results[4].Content[0].Text; !strings.HasSuffix(got, "\n     1\ta\n     2\tb\n     3\t") {
		t.Errorf("the last command saw %q", got)
	}
	if got := done.Results[3].Revision; got != 3 {
		t.Errorf("three changes made revision %d", got)
	}
	if diff := cmp.Diff(done, batch("id", commands...)); diff != "" {
		t.Errorf("again (-first +again)\n%s", diff)
	}
	if _, err := m.Batch(t.Context(), namespace, []memory.BatchCommand{{Command: commands[0]}}, "id"); !errors.Is(
		err, memory.ErrRequestIDReused) {
		t.Errorf("a part of it under the same id: %v", err)
	}

	large := strings.Repeat("x", memory.DefaultMaxFileBytes)
	must(t, m, memory.Create{Path: "/memories/lines"})
	must(t, m, memory.Put{Path: "/memories/blob.png", Data: append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 1<<19)...)})
	before, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var tooMuch []memory.Command
	for i := range 40 {
		tooMuch = append(tooMuch, memory.Create{Path: fmt.Sprintf("/memories/large/%d", i), FileText: large})
	}
	for name, test := range map[string]struct {
		commands []memory.Command
		index    int
		reason   memory.Reason
	}{
		"fails in the middle": {[]memory.Command{
			memory.Create{Path: "/memories/x/y"}, memory.Delete{Path: "/memories/missing"}, memory.Create{Path: "/memories/z"},
		}, 1, memory.ReasonDeletePathNotFound},
		"a bad path": {[]memory.Command{
			memory.Create{Path: "/memories/x/y"}, memory.Create{Path: "/etc/z"},
		}, 1, memory.ReasonPathOutsideMemories},
		"nothing":  {nil, -1, memory.ReasonBatchTooLarge},
		"too many": {slices.Repeat([]memory.Command{memory.View{Path: "/memories"}}, 65), -1, memory.ReasonBatchTooLarge},
		"too much": {tooMuch, -1, memory.ReasonBatchTooLarge},
		"too much to show": {
			slices.Repeat([]memory.Command{memory.View{Path: "/memories/blob.png"}}, 40), -1, memory.ReasonBatchTooLarge,
		},
		"too much to show beside a change": {
			append(slices.Repeat([]memory.Command{memory.View{Path: "/memories/blob.png"}}, 40),
				memory.Delete{Path: "/memories/lines"}), -1, memory.ReasonBatchTooLarge,
		},
	} {
		got := batch("another id", test.commands...)
		if got.FailedIndex != test.index || got.Failed.Reason != test.reason || got.Results != nil {
			t.Errorf("%s: got %+v, want index %d and reason %d", name, got, test.index, test.reason)
		}
	}
	after, _, err := m.List(t.Context(), namespace, memory.Root, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("batches that failed changed something (-before +after)\n%s", diff)
	}
}

// TestBatch_OnlyViews views in a batch, which needs no transaction: a store that takes no writes answers too, and records
// nothing.
func TestBatch_OnlyViews(t *testing.T) {
	store := &kvtest.Faulty{Store: kvtest.Harsh(memkv.New())}
	defer store.Close()
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, m, memory.Create{Path: "/memories/f", FileText: "x"})
	store.BeforeUpdate = func(string) error { return kv.ErrReadOnly }
	views := []memory.BatchCommand{
		{Command: memory.View{Path: "/memories/f"}}, {Command: memory.View{Path: "/memories"}},
	}
	result, err := m.Batch(t.Context(), namespace, views, "id")
	if err != nil || len(result.Results) != 2 || result.Results[1].Revision != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
	views = append(views, memory.BatchCommand{Command: memory.View{Path: "/memories/missing"}})
	result, err = m.Batch(t.Context(), namespace, views, "id")
	if err != nil || result.FailedIndex != 2 || result.Failed.Reason != memory.ReasonViewPathNotFound {
		t.Errorf("one that fails: %+v, %v", result, err)
	}
}

// TestLostAnswer repeats a request whose answer the store lost.
func TestLostAnswer(t *testing.T) {
	store := kvtest.Harsh(memkv.New())
	lost := &kvtest.Faulty{Store: store, AfterUpdate: kvtest.OnCall(1, kv.ErrUnknown)}
	m, err := memory.New(lost, memory.Options{Now: func() time.Time { return testTime }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	call := memory.Call{RequestID: "id"}
	create := memory.Create{Path: "/memories/f", FileText: "x"}
	if _, err := m.Do(t.Context(), namespace, create, call); !errors.Is(err, kv.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
	result, err := m.Do(t.Context(), namespace, create, call)
	if err != nil || result.IsError() || result.Revision != 1 {
		t.Errorf("again: %v %v", result, err)
	}
}
