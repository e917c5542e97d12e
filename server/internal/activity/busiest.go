package activity

import "time"

// maxNamespaces is how many namespaces are counted in one period. While there are no more, all counts are exact.
const maxNamespaces = 1024

// busiest counts the calls of namespaces, of the busiest where there are more than it has room for: the algorithm is
// Space-Saving (Metwally, Agrawal, El Abbadi, 2005). A name that is new takes the place of one with the fewest calls,
// and might have had as many itself, unseen. So each count is too low by no more than that.
type busiest struct {
	room    int
	index   map[string]int // to the index in entries
	entries []entry
	// No entry has fewer calls than least, and those before next have more. No name without an entry has had more
	// calls than least, which is 0 while there is room for all.
	least int64
	next  int
}

// entry is what was counted of a namespace since it has the place.
type entry struct {
	namespace string
	unseen    int64 // the most calls that it may have had before
	count     Count
	took      time.Duration
}

// bound is the most calls that the namespace may have had.
func (e *entry) bound() int64 { return e.unseen + e.count.Calls }

func newBusiest(room int) busiest { return busiest{room: room, index: map[string]int{}} }

func (b *busiest) add(c Call) {
	i, ok := b.index[c.Namespace]
	switch {
	case ok:
	case len(b.entries) < b.room:
		i = len(b.entries)
		b.entries = append(b.entries, entry{namespace: c.Namespace})
		b.index[c.Namespace] = i
	default:
		i = b.quietest()
		delete(b.index, b.entries[i].namespace)
		b.entries[i] = entry{namespace: c.Namespace, unseen: b.least}
		b.index[c.Namespace] = i
	}
	e := &b.entries[i]
	e.count.add(c.Failed)
	e.took += c.Took
}

// quietest returns the index of an entry with the fewest calls, which are then b.least. Each time that it looks at all
// entries, each of them has had at least one call more since, so that it costs a few steps for each call.
func (b *busiest) quietest() int {
	for ; ; b.next++ {
		if b.next == len(b.entries) {
			b.next, b.least = 0, b.entries[0].bound()
			for i := range b.entries {
				b.least = min(b.least, b.entries[i].bound())
			}
		}
		if b.entries[b.next].bound() == b.least {
			return b.next
		}
	}
}

// clear forgets all names, and keeps the memory of the tables.
func (b *busiest) clear() {
	clear(b.index)
	clear(b.entries)
	b.entries = b.entries[:0]
	b.next, b.least = 0, 0
}
