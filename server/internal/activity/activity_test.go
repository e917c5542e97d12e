package activity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	view   = "/memoryd.v1.MemoryService/View"
	create = "/memoryd.v1.MemoryService/Create"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that stands until it is moved.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) now() time.Time           { return noon.Add(time.Duration(c.nanoseconds.Load())) }
func (c *clock) advance(by time.Duration) { c.nanoseconds.Add(int64(by)) }

func newActivity() (*Activity, *clock) {
	c := &clock{}
	return New([]string{view, create}, c.now), c
}

func TestSnapshot(t *testing.T) {
	a, clock := newActivity()
	clock.advance(3 * time.Second)
	a.Note(Call{Method: view, Namespace: "b", Took: time.Millisecond})
	a.Note(Call{Method: view, Namespace: "a", Took: 2 * time.Millisecond})
	a.Note(Call{Method: view, Namespace: "a", Failed: true, Took: 300 * time.Nanosecond})
	a.Note(Call{Method: "/unknown", Namespace: "a", Took: time.Hour})
	a.Note(Call{Method: create, Took: time.Second})
	a.Note(Call{Method: create, Namespace: strings.Repeat("x", MaxNamespaceBytes+1), Took: time.Second})
	a.NoteCommit(5, time.Second)
	a.NoteCommit(2, time.Second)
	clock.advance(time.Second)

	const middle = 973078528 * time.Nanosecond // of the bucket of a second
	second := Latency{P50: middle, P90: middle, P99: middle, Max: time.Second}
	want := Snapshot{
		Started: noon, Now: noon.Add(4 * time.Second), Window: 4 * time.Second,
		Methods: []Method{
			{create, Count{2, 0}, Count{2, 0}, 2 * time.Second, second},
			{view, Count{3, 1}, Count{3, 1}, 3*time.Millisecond + 300*time.Nanosecond, Latency{
				// The middle of the bucket of 1 ms; that of 2 ms is above the longest.
				P50: 1015808 * time.Nanosecond, P90: 2 * time.Millisecond, P99: 2 * time.Millisecond, Max: 2 * time.Millisecond,
			}},
		},
		Namespaces: []Namespace{
			{"a", Count{2, 1}, 2*time.Millisecond + 300*time.Nanosecond},
			{"b", Count{1, 0}, time.Millisecond},
		},
		Commits: Commits{2, 7, second},
	}
	if diff := cmp.Diff(want, a.Snapshot()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	clock.advance(50 * time.Second)
	if diff := cmp.Diff(want.Namespaces, a.Snapshot().Namespaces); diff != "" {
		t.Errorf("within the minute (-want +got):\n%s", diff)
	}
	clock.advance(6 * time.Second)
	want = Snapshot{
		Started: noon, Now: noon.Add(60 * time.Second), Window: 50 * time.Second,
		Methods: []Method{{create, Count{2, 0}, Count{}, 0, Latency{}}, {view, Count{3, 1}, Count{}, 0, Latency{}}},
	}
	if diff := cmp.Diff(want, a.Snapshot()); diff != "" {
		t.Errorf("after the minute (-want +got):\n%s", diff)
	}
	a.Note(Call{Method: view, Namespace: "c", Took: time.Second})
	if got, want := a.Snapshot().Namespaces, []Namespace{{"c", Count{1, 0}, time.Second}}; !cmp.Equal(got, want) {
		t.Errorf("in the place of an old period: got %v, want %v", got, want)
	}
}

func TestSnapshot_Nil(t *testing.T) {
	var a *Activity
	a.Note(Call{Method: view})
	a.NoteCommit(1, time.Second)
	if got := a.Snapshot(); !cmp.Equal(got, Snapshot{}) {
		t.Errorf("got %+v, want nothing", got)
	}
}

// A call whose time was taken before that of another, and that is noted after it, does not bring back its period.
func TestPeriod_Late(t *testing.T) {
	a, _ := newActivity()
	newest := a.period(12)
	newest.updates = 7
	if got := a.period(5); got != newest || got.updates != 7 {
		t.Errorf("got period %d, want that of the latest, %d", got.number, newest.number)
	}
}

func TestLatencies_Quantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// From 0 to hours, each magnitude as likely.
		durations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(0, 42).Draw(t, "magnitude")).Draw(t, "duration"))
		}), 1, 50).Draw(t, "durations")
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		var l latencies
		for _, d := range durations {
			l.add(d)
		}
		slices.Sort(durations)
		want := durations[int(math.Ceil(q*float64(len(durations))))-1]
		got := l.quantile(q)
		if off := (got - want).Abs(); off > want/10 && off > 128*time.Nanosecond || got > l.max {
			t.Errorf("quantile %g of %v: got %s, want about %s", q, durations, got, want)
		}
	})
}

// No duration, however odd, falls outside of the buckets.
func TestBucketOf_Edges(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want int
	}{
		{math.MinInt64, 0},
		{-1, 0},
		{0, 0},
		{127, 0},
		{128, 1},
		{16*128 - 1, 15},
		{16 * 128, 16},
		{18 * 128, 17},
		{1<<42 - 1, 263},
		{math.MaxInt64, buckets - 1},
	} {
		if got := bucketOf(tt.d); got != tt.want {
			t.Errorf("bucketOf(%d): got %d, want %d", tt.d, got, tt.want)
		}
	}
	for i := range buckets {
		if got := bucketOf(middle(i)); got != i {
			t.Errorf("the middle of bucket %d, %s, is in bucket %d", i, middle(i), got)
		}
	}
}

// TestBusiest_Model holds the counts against exact ones: none is too high, none is too low by more than is told, and
// they are exact while there is room for all.
func TestBusiest_Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 6).Draw(t, "room")
		names := rapid.IntRange(1, 12).Draw(t, "names")
		b := newBusiest(room)
		exact := map[string]Namespace{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c := Call{
					// Squared, so that some are busier than others.
					Namespace: fmt.Sprint(rapid.IntRange(0, names*names-1).Draw(t, "name") / names),
					Failed:    rapid.Bool().Draw(t, "failed"),
					Took:      time.Duration(rapid.IntRange(0, 1000).Draw(t, "took")),
				}
				b.add(c)
				n := exact[c.Namespace]
				n.add(c.Failed)
				n.Took += c.Took
				exact[c.Namespace] = n
			},
			"clear": func(*rapid.T) {
				b.clear()
				clear(exact)
			},
			"": func(t *rapid.T) {
				if len(b.entries) > room || len(b.index) != len(b.entries) {
					t.Fatalf("%d entries and %d in the index, want at most %d", len(b.entries), len(b.index), room)
				}
				if b.least == 0 && len(exact) > room {
					t.Errorf("%d names in %d places count as exact", len(exact), room)
				}
				for name, want := range exact {
					var got entry
					if i, ok := b.index[name]; ok {
						got = b.entries[i]
					}
					switch {
					case got.count.Calls > want.Calls || got.count.Calls < want.Calls-b.least,
						got.count.Failed > want.Failed, got.took > want.Took:
						t.Errorf("%s: got %+v, want %+v less at most %d calls", name, got, want, b.least)
					case len(exact) <= room && (got.count != want.Count || got.took != want.Took):
						t.Errorf("%s: got %+v, want %+v", name, got, want)
					}
				}
			},
		})
	})
}

// Names without end, each of them new, cost neither memory nor the place of a namespace that is really busy.
func TestNote_ManyNames(t *testing.T) {
	a, clock := newActivity()
	const calls = 200_000
	for i := range calls {
		name := "busy"
		if i%10 != 0 {
			name = fmt.Sprint("name-", i)
		}
		a.Note(Call{Method: view, Namespace: name, Took: time.Microsecond})
		if i%1000 == 0 {
			clock.advance(100 * time.Millisecond)
		}
	}
	for _, p := range a.ring {
		if n := len(p.namespaces.entries); n > maxNamespaces {
			t.Errorf("got %d entries in a period, want at most %d", n, maxNamespaces)
		}
	}
	s := a.Snapshot()
	got := slices.MaxFunc(s.Namespaces, func(a, b Namespace) int { return int(a.Calls - b.Calls) })
	if low, high := calls/10-s.Missing, int64(calls/10); got.Name != "busy" || got.Calls < low || got.Calls > high {
		t.Errorf("got %+v as the busiest, want busy with %d to %d calls", got, low, high)
	}
	if s.Missing > calls/maxNamespaces+1 {
		t.Errorf("got %d calls that may be missing, want at most one of %d", s.Missing, maxNamespaces)
	}
}

func TestNote_Concurrent(t *testing.T) {
	a, clock := newActivity()
	const callers, each = 8, 2000
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for j := range each {
				a.Note(Call{Method: view, Namespace: fmt.Sprint(j % (i + 2)), Failed: j%2 == 0, Took: time.Duration(j)})
				a.NoteCommit(2, time.Duration(j))
				switch {
				case j%500 == 0:
					clock.advance(time.Second)
				case j%100 == 0:
					a.Snapshot()
				}
			}
		})
	}
	group.Wait()
	s := a.Snapshot()
	want := []Count{{callers * each, callers * each / 2}, {callers * each, callers * each / 2}}
	if got := []Count{s.Methods[0].Total, s.Methods[0].Recent}; !cmp.Equal(got, want) {
		t.Errorf("methods: got %v, want %v", got, want)
	}
	total := Count{}
	for _, n := range s.Namespaces {
		total.Calls += n.Calls
		total.Failed += n.Failed
	}
	if total != want[0] || s.Missing != 0 {
		t.Errorf("namespaces: got %v and %d missing, want %v", total, s.Missing, want[0])
	}
	if s.Commits.Commits != callers*each || s.Commits.Updates != 2*callers*each {
		t.Errorf("commits: got %+v, want %d of two updates each", s.Commits, callers*each)
	}
}

func TestNote_Allocates(t *testing.T) {
	a, clock := newActivity()
	names := make([]string, 2*maxNamespaces)
	for i := range names {
		names[i] = fmt.Sprint("acme/user-", i)
	}
	i := 0
	note := func() {
		a.Note(Call{Method: view, Namespace: names[i%len(names)], Took: time.Millisecond})
		if i++; i%len(names) == 0 {
			clock.advance(periodLength)
		}
	}
	for range 20 * len(names) { // fills the tables of all periods
		note()
	}
	if got := testing.AllocsPerRun(10*len(names), note); got != 0 {
		t.Errorf("got %g allocations a call, want none", got)
	}
}

func BenchmarkNote(b *testing.B) {
	for _, tt := range []struct {
		name  string
		names int
	}{{"one namespace", 1}, {"1000 namespaces", 1000}, {"100000 namespaces", 100_000}} {
		b.Run(tt.name, func(b *testing.B) {
			names := make([]string, tt.names)
			for i := range names {
				names[i] = fmt.Sprint("acme/user-", i)
			}
			a := New([]string{view, create}, time.Now)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				random := rand.New(rand.NewPCG(1, 2))
				for pb.Next() {
					a.Note(Call{Method: view, Namespace: names[random.IntN(len(names))], Took: 150 * time.Microsecond})
				}
			})
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	a, clock := newActivity()
	for i := range periods * maxNamespaces {
		a.Note(Call{Method: view, Namespace: fmt.Sprint(i % maxNamespaces), Took: time.Duration(i)})
		if i%maxNamespaces == maxNamespaces-1 {
			clock.advance(periodLength)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		runtime.KeepAlive(a.Snapshot())
	}
}
