package boltkv

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// The tests of this file hold what the commands of the memory tool cost on disk, in counters that do not depend on how
// busy the machine is. Where one fails, a change made something dearer: find out what, before raising the limit.

// creator creates files of 2 KB, 100 in a directory, so many at a time that they share a commit.
type creator struct {
	store   *Store
	memory  *memory.Memory
	scopes  int // namespaces in which the files are, in turn
	created int
}

const (
	creatorGroup = 64
	creatorBytes = 2048
)

func newCreator(t *testing.T, scopes int) *creator {
	t.Helper()
	store := openTest(t, Options{Dir: t.TempDir()})
	m, err := memory.New(store, memory.Options{Defaults: memory.Settings{MaxFiles: new(int64(0))}})
	if err != nil {
		t.Fatal(err)
	}
	return &creator{store: store, memory: m, scopes: scopes}
}

// path is that of the n-th file.
func (c *creator) path(n int) (namespace, path string) {
	n, scope := n/c.scopes, n%c.scopes
	return fmt.Sprintf("ns-%02d", scope), fmt.Sprintf("/memories/%d/%d", n/100, n)
}

var creatorText = strings.Repeat("0123456789abcde\n", creatorBytes/16)

// fill creates files in large transactions, without request ids.
func (c *creator) fill(t *testing.T, files int) {
	t.Helper()
	batches := make(map[string][]memory.BatchCommand)
	apply := func(namespace string) {
		t.Helper()
		result, err := c.memory.Batch(t.Context(), namespace, batches[namespace], "")
		if err != nil || result.FailedIndex >= 0 {
			t.Fatalf("fill: %v %v", result.Failed, err)
		}
		delete(batches, namespace)
	}
	for range files {
		namespace, path := c.path(c.created)
		c.created++
		create := memory.BatchCommand{Command: memory.Create{Path: path, FileText: creatorText}}
		batches[namespace] = append(batches[namespace], create)
		if len(batches[namespace]) == memory.MaxBatchCommands {
			apply(namespace)
		}
	}
	for namespace := range batches {
		apply(namespace)
	}
}

// create creates files in groups that share a commit, and returns what all of these commits were together.
func (c *creator) create(t *testing.T, groups int) kv.Commit {
	t.Helper()
	var all kv.Commit
	c.store.ObserveCommits(func(commit kv.Commit) {
		all.Updates += commit.Updates
		all.WriteCalls += commit.WriteCalls
		all.WrittenBytes += commit.WrittenBytes
	})
	defer c.store.ObserveCommits(nil)
	before := c.store.Stats().Commits
	for range groups {
		release := blockCommitter(t, c.store)
		var wg sync.WaitGroup
		for i := range creatorGroup {
			namespace, path := c.path(c.created)
			create := memory.Create{Path: path, FileText: creatorText}
			// As the ids of the client, it begins with the time.
			call := memory.Call{RequestID: fmt.Sprintf("%012x%s", c.created, path)}
			c.created++
			wg.Go(func() {
				result, err := c.memory.Do(t.Context(), namespace, create, call)
				if err != nil || result.IsError() {
					t.Errorf("create: %v %v", result, err)
				}
			})
			awaitQueue(c.store, i+1) // so that each run has the same order
		}
		release()
		wg.Wait()
	}
	if got := c.store.Stats().Commits - before; got != int64(groups) {
		t.Fatalf("%d groups took %d commits", groups, got)
	}
	return all
}

func TestCounters_Create(t *testing.T) {
	for _, tt := range []struct {
		name       string
		scopes     int
		mostBytes  float64 // of one update
		mostWrites float64 // of one update
	}{
		{"one namespace", 1, 6 << 10, 0.75},
		// What each namespace keeps for itself is in pages of its own.
		{"64 namespaces", 64, 36 << 10, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCreator(t, tt.scopes)
			c.fill(t, 5000)
			all := c.create(t, 10)
			bytes := float64(all.WrittenBytes) / float64(all.Updates)
			writes := float64(all.WriteCalls) / float64(all.Updates)
			t.Logf("a create wrote %.0f bytes in %.2f calls", bytes, writes)
			if bytes > tt.mostBytes {
				t.Errorf("a create wrote %.0f bytes, want at most %.0f", bytes, tt.mostBytes)
			}
			if writes > tt.mostWrites {
				t.Errorf("a create took %.2f writes, want at most %.2f", writes, tt.mostWrites)
			}
		})
	}
}

// What a create writes grows with the depth of the trees only.
func TestCounters_CreateInLargeStore(t *testing.T) {
	c := newCreator(t, 1)
	c.fill(t, 1000)
	small := c.create(t, 10)
	c.fill(t, 20_000)
	large := c.create(t, 10)
	if got, most := large.WrittenBytes, small.WrittenBytes*5/4; got > most {
		t.Errorf("640 creates wrote %d bytes in a small store and %d in a large one, want at most %d",
			small.WrittenBytes, got, most)
	}
}

// A lone create writes each page that it changes, and a meta page.
func TestCounters_CreateAlone(t *testing.T) {
	c := newCreator(t, 1)
	c.fill(t, 5000)
	var writes int64
	c.store.ObserveCommits(func(commit kv.Commit) { writes += commit.WriteCalls })
	const creates = 20
	for range creates {
		namespace, path := c.path(c.created)
		c.created++
		create := memory.Create{Path: path, FileText: creatorText}
		result, err := c.memory.Do(t.Context(), namespace, create, memory.Call{RequestID: fmt.Sprintf("%012x", c.created)})
		if err != nil || result.IsError() {
			t.Fatalf("create: %v %v", result, err)
		}
	}
	if got, most := writes, int64(creates*11); got > most {
		t.Errorf("%d lone creates took %d writes, want at most %d", creates, got, most)
	}
}

// An edit of a large file writes the file, and little more.
func TestCounters_StrReplace(t *testing.T) {
	c := newCreator(t, 1)
	line := strings.Repeat("x", 63) + "\n"
	half := strings.Repeat(line, 1<<19/len(line)-1)
	text := half + "old\n" + half
	result, err := c.memory.Do(t.Context(), "ns", memory.Create{Path: "/memories/f", FileText: text}, memory.Call{})
	if err != nil || result.IsError() {
		t.Fatalf("create: %v %v", result, err)
	}
	var wrote int64
	c.store.ObserveCommits(func(commit kv.Commit) { wrote += commit.WrittenBytes })
	edit := memory.StrReplace{Path: "/memories/f", OldStr: "old\n", NewStr: "new text\n"}
	result, err = c.memory.Do(t.Context(), "ns", edit, memory.Call{RequestID: "id"})
	if err != nil || result.IsError() {
		t.Fatalf("str_replace: %v %v", result, err)
	}
	if most := int64(1.3e6); wrote > most {
		t.Errorf("an edit of a file of %d bytes wrote %d, want at most %d", len(text), wrote, most)
	}
}

// What commands allocate, in all of the layers below them.
func TestCounters_Allocations(t *testing.T) {
	if raceDetector() {
		t.Skip("not run with the race detector, which allocates too")
	}
	c := newCreator(t, 1)
	c.fill(t, 200)
	do := func(cmd memory.Command) {
		result, err := c.memory.Do(t.Context(), "ns-00", cmd, memory.Call{RequestID: fmt.Sprintf("%012x", c.created)})
		if err != nil || result.IsError() {
			t.Fatalf("%s: %v %v", cmd.Name(), result, err)
		}
		c.created++
	}
	from, to := "first", "second"
	do(memory.Create{Path: "/memories/edited", FileText: from + "\n" + creatorText})
	for _, tt := range []struct {
		name string
		run  func()
		most float64
	}{
		{"create", func() {
			_, path := c.path(c.created)
			do(memory.Create{Path: path, FileText: creatorText})
		}, 230},
		{"str_replace", func() {
			do(memory.StrReplace{Path: "/memories/edited", OldStr: from, NewStr: to})
			from, to = to, from
		}, 230},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := testing.AllocsPerRun(50, tt.run)
			t.Logf("%.0f allocations", got)
			if got > tt.most {
				t.Errorf("got %.0f allocations, want at most %.0f", got, tt.most)
			}
		})
	}
}

// raceDetector tells whether the test is built with the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// While it is filled, a store grows in few steps, each of which costs a sync.
func TestGrowth(t *testing.T) {
	for _, tt := range []struct {
		size int64
		want int
	}{
		{0, minGrowthBytes},
		{8 << 20, minGrowthBytes},
		{80 << 20, 10 << 20},
		{1 << 40, maxGrowthBytes},
	} {
		if got := growth(tt.size); got != tt.want {
			t.Errorf("growth(%d): got %d, want %d", tt.size, got, tt.want)
		}
	}
}
