package memory_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// unreadAfter is the setting of the tests of expiry, and readInterval how exactly views are recorded.
const (
	unreadAfter  = 3 * time.Hour
	readInterval = time.Hour
)

// usedFile is what a test knows of a file.
type usedFile struct {
	used   time.Duration // last viewed or changed
	pinned bool
}

// expiryModel drives a Memory, and knows when every file was really used.
type expiryModel struct {
	*testing.T
	random  *rand.Rand
	store   *kvtest.Faulty
	memory  *memory.Memory
	now     time.Time     // what the clock tells
	ran     time.Duration // how long memoryd really ran
	files   map[string]usedFile
	floor   time.Duration // when views were last lost, or the clock set
	fell    bool          // the clock was set back, so that files may stay for longer
	sets    bool          // the clock may be set
	failing bool          // updates fail
}

func newExpiryModel(t *testing.T, seed uint64) *expiryModel {
	x := &expiryModel{T: t, random: rand.New(rand.NewPCG(seed, 0)), now: testTime, files: map[string]usedFile{}}
	x.store = &kvtest.Faulty{Store: kvtest.Harsh(memkv.New())}
	x.store.BeforeUpdate = func(string) error {
		if x.failing {
			return kv.ErrFull
		}
		return nil
	}
	t.Cleanup(func() { _ = x.store.Close() })
	x.open()
	return x
}

// open starts a new process.
func (x *expiryModel) open() {
	m, err := memory.New(x.store, memory.Options{
		Defaults: memory.Settings{ExpireUnreadAfter: new(unreadAfter)}, Now: func() time.Time { return x.now },
		Elapsed: func() time.Duration { return x.ran },
	})
	if err != nil {
		x.Fatal(err)
	}
	if err := m.Start(x.Context()); err != nil {
		x.Fatal(err)
	}
	x.memory = m
}

// check is that of the store, and that nothing is recorded of files that are none.
func (x *expiryModel) check() {
	if err := x.memory.Check(x.Context(), namespace); err != nil {
		x.Fatal(err)
	}
	recorded := 0
	err := x.store.View(x.Context(), namespace, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{Prefix: []byte("a"), KeysOnly: true}, func(_, _ []byte) error {
			recorded++
			return nil
		})
	})
	if err != nil || recorded > len(x.files) {
		x.Fatalf("views of %d files are recorded, but there are %d: %v", recorded, len(x.files), err)
	}
}

func (x *expiryModel) wait(d time.Duration) {
	x.now, x.ran = x.now.Add(d), x.ran+d
}

// set sets the clock, where the run may.
func (x *expiryModel) set() {
	if !x.sets {
		return
	}
	step := time.Duration(2+x.random.IntN(50)) * time.Hour
	if x.random.IntN(2) == 0 {
		step, x.fell = -step, true
	}
	x.now, x.floor = x.now.Add(step), x.ran
}

// stop ends the process cleanly.
func (x *expiryModel) stop() {
	x.failing = false
	if err := x.memory.Stop(x.Context()); err != nil {
		x.Fatal(err)
	}
}

func (x *expiryModel) use(p string) {
	file := x.files[p]
	file.used = x.ran
	x.files[p] = file
}

// below are the files at or below a path.
func (x *expiryModel) below(p string) []string {
	var all []string
	for file := range x.files {
		if file == p || strings.HasPrefix(file, p+"/") {
			all = append(all, file)
		}
	}
	return all
}

// succeeds executes a command, which may fail for what is there, or where the store is full.
func (x *expiryModel) succeeds(cmd memory.Command) bool {
	result, err := x.memory.Do(x.Context(), namespace, cmd, memory.Call{})
	return !x.failed(err) && !result.IsError()
}

// sweep removes what expires, and checks that it was right to.
func (x *expiryModel) sweep() {
	x.failing = false
	var planned []string
	for after := ""; ; {
		page, next, err := x.memory.PlanExpiry(x.Context(), namespace, memory.ExpiryQuery{After: after, Limit: 2})
		if err != nil {
			x.Fatal(err)
		}
		for _, f := range page {
			planned = append(planned, f.Entry.Path)
			if !f.Expires.Before(x.now) {
				x.Errorf("%s is in the plan at %v, and expires at %v", f.Entry.Path, x.now, f.Expires)
			}
		}
		if after = next; after == "" {
			break
		}
	}
	var removed []string
	for more := true; more; {
		report, err := x.memory.Expire(x.Context(), func(f memory.ExpiredFile) { removed = append(removed, f.Path) })
		if err != nil {
			x.Fatal(err)
		}
		more = report.More
	}
	slices.Sort(planned)
	slices.Sort(removed)
	if diff := cmp.Diff(planned, removed); diff != "" {
		x.Errorf("what was planned is not what was removed (-planned +removed):\n%s", diff)
	}
	for _, p := range removed {
		file, ok := x.files[p]
		if age := x.ran - file.used; !ok || file.pinned || age <= unreadAfter {
			x.Errorf("removed %s, which was used %v ago: %+v", p, age, file)
		}
		delete(x.files, p)
	}
	for _, p := range slices.Sorted(maps.Keys(x.files)) {
		file := x.files[p]
		last := max(file.used+readInterval, x.floor)
		if !file.pinned && !x.fell && x.ran-last > unreadAfter {
			x.Errorf("left %s, which was used %v ago, %v after the last crash: %+v", p, x.ran-file.used, x.ran-x.floor, file)
		}
	}
}

// expiryActions are what can happen, and how often.
var expiryActions = map[string]struct {
	weight int
	do     func(*expiryModel)
}{
	"put": {4, func(x *expiryModel) {
		if p := x.path(); x.succeeds(memory.Put{Path: p, Data: []byte("x")}) {
			x.use(p)
		}
	}},
	"view": {20, func(x *expiryModel) {
		p := x.path()
		if _, file := x.files[p]; x.succeeds(memory.View{Path: p}) && file {
			x.use(p)
		}
	}},
	"view in a batch": {2, func(x *expiryModel) {
		p, q := x.path(), x.path()
		batch, err := x.memory.Batch(x.Context(), namespace, []memory.BatchCommand{
			{Command: memory.View{Path: p}}, {Command: memory.Put{Path: q, Data: []byte("y")}},
		}, "")
		if x.failed(err) || batch.Failed.IsError() {
			return
		}
		x.use(q)
		if _, file := x.files[p]; file {
			x.use(p)
		}
	}},
	"look": {2, func(x *expiryModel) { // which is no use
		p := x.path()
		_, _, err := x.memory.Read(x.Context(), namespace, p)
		_, _, listErr := x.memory.List(x.Context(), namespace, memory.Root, "", 10)
		if err := errors.Join(err, listErr); err != nil {
			x.Fatal(err)
		}
		must(x, x.memory, memory.View{Path: memory.Root})
		x.succeeds(memory.View{Path: p, Range: &memory.Range{Start: 7, End: 9}}) // It does not.
	}},
	"delete": {1, func(x *expiryModel) {
		if p := x.directoryOr(x.path()); x.succeeds(memory.Delete{Path: p}) {
			for _, file := range x.below(p) {
				delete(x.files, file)
			}
		}
	}},
	"rename": {2, func(x *expiryModel) {
		p, q := x.directoryOr(x.path()), x.path()
		if !x.succeeds(memory.Rename{OldPath: p, NewPath: q}) {
			return
		}
		for _, file := range x.below(p) {
			x.files[q+strings.TrimPrefix(file, p)] = x.files[file]
			delete(x.files, file)
		}
		if _, file := x.files[q]; file {
			x.use(q)
		}
	}},
	"pin": {1, func(x *expiryModel) {
		p, unpin := x.path(), x.random.IntN(2) == 0
		if file, ok := x.files[p]; ok && x.succeeds(memory.Pin{Path: p, Unpin: unpin}) && file.pinned == unpin {
			x.files[p] = usedFile{x.ran, !unpin}
		}
	}},
	"delete the namespace": {1, func(x *expiryModel) {
		err := x.memory.DeleteNamespace(x.Context(), namespace)
		if !errors.Is(err, memory.ErrNoNamespace) && !x.failed(err) {
			clear(x.files)
		}
	}},
	"wait": {24, func(x *expiryModel) {
		x.wait(time.Duration(1+x.random.IntN(6)) * 10 * time.Minute)
	}},
	"flush": {6, func(x *expiryModel) {
		_, err := x.memory.FlushReads(x.Context())
		x.failed(err)
	}},
	"fill the store": {1, func(x *expiryModel) { x.failing = true }},
	"make room":      {4, func(x *expiryModel) { x.failing = false }},
	"crash": {1, func(x *expiryModel) {
		x.failing = false
		x.floor = x.ran
		if x.random.IntN(2) == 0 {
			x.set()
		}
		x.open()
	}},
	"restart": {3, func(x *expiryModel) {
		x.stop()
		x.open()
	}},
	"off": {1, func(x *expiryModel) {
		x.stop()
		x.now, x.floor = x.now.Add(time.Duration(2+x.random.IntN(50))*time.Hour), x.ran
		x.open()
	}},
	"set the clock": {1, func(x *expiryModel) { x.set() }},
	"set the clock while off": {1, func(x *expiryModel) {
		x.stop()
		x.set()
		x.open()
	}},
	"sweep": {16, func(x *expiryModel) { x.sweep() }},
}

// path draws the path of a file.
func (x *expiryModel) path() string {
	return memory.Root + "/" + []string{"a", "d/a", "e/d/a"}[x.random.IntN(3)]
}

// directoryOr draws a directory or the path.
func (x *expiryModel) directoryOr(p string) string {
	return []string{p, memory.Root + "/d"}[x.random.IntN(2)]
}

// failed tells whether something has failed, which it may where the store is full.
func (x *expiryModel) failed(err error) bool {
	if err != nil && (!x.failing || !errors.Is(err, kv.ErrFull)) {
		x.Fatal(err)
	}
	return err != nil
}

// TestExpire_Model checks, whatever happens to files and to processes, that no file is removed that was used within the
// setting, that those are removed that were not, and that the plan is what is removed.
func TestExpire_Model(t *testing.T) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(expiryActions)) {
		names = append(names, slices.Repeat([]string{name}, expiryActions[name].weight)...)
	}
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			x := newExpiryModel(t, seed)
			x.sets = seed%2 == 1
			for range 300 {
				name := names[x.random.IntN(len(names))]
				expiryActions[name].do(x)
				x.check()
				if t.Failed() {
					t.Fatalf("that was after: %s", name)
				}
			}
			x.wait(unreadAfter + 2*readInterval)
			x.sweep()
			for p, file := range x.files {
				if !file.pinned && !x.fell {
					t.Errorf("left %s: %+v", p, file)
				}
			}
		})
	}
}
