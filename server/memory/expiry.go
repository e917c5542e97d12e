package memory

import (
	"context"
	"time"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// expiryEntries is the most entries that one call looks at, and at that many the time that it takes is some 10 ms.
const expiryEntries = 10_000

// ExpiringFile is a file that expires.
type ExpiringFile struct {
	Entry Entry
	// Viewed is when it was last viewed, as far as that is known: the views of an hour after it are not. Zero where it
	// was not viewed.
	Viewed time.Time
	// Expires is when it expires, unless it is viewed, changed or pinned before.
	Expires time.Time
}

// ExpiryQuery says which files PlanExpiry returns.
type ExpiryQuery struct {
	// UnreadAfter is the setting ExpireUnreadAfter to plan with; nil is the one in force.
	UnreadAfter *time.Duration
	// Before is the time before which the files expire; zero is now.
	Before time.Time
	// After is the path after which the page begins: the next of the page before, "" on the first page.
	After string
	// Limit is the most files of a page; it must be positive.
	Limit int
}

// PlanExpiry returns files of a namespace that expire, in the order of List, and removes none. next is the After of the
// next page, "" on the last. A page may have fewer files than the limit, and even none, before the last. A setting out
// of its range is an *InvalidError.
func (m *Memory) PlanExpiry(ctx context.Context, namespace string, q ExpiryQuery) (
	files []ExpiringFile, next string, err error,
) {
	if err := (Settings{ExpireUnreadAfter: q.UnreadAfter}).Validate(); err != nil {
		return nil, "", err
	}
	after := Path{}
	if q.After != "" {
		var f *failure
		if after, f = parsePath(q.After); f != nil {
			return nil, "", &InvalidError{Field: "page_token", Text: "page_token is not one of this plan"}
		}
	}
	var page expiringPage
	err = m.view(ctx, namespace, func(t *tree) (err error) {
		unread := *t.settings.ExpireUnreadAfter
		if q.UnreadAfter != nil {
			unread = *q.UnreadAfter
		}
		x := m.expiry(namespace, unread, q.Before)
		page, err = t.expiring(x, entryKey(after), expiryEntries, q.Limit)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	for _, e := range page.files {
		files = append(files, ExpiringFile{
			Entry:   e.node.entry(e.path),
			Viewed:  instant(e.viewed),
			Expires: e.expires,
		})
	}
	if !page.last {
		next = keyPath(page.key).String()
	}
	return files, next, nil
}

// expiry is what decides of the files of a namespace whether they expire before a time.
type expiry struct {
	unread time.Duration // the setting; 0 is never
	floor  int64
	before time.Time
	// viewed returns when a file was viewed, as far as that is not recorded.
	viewed func(id uint64) int64
}

// expiry is that of a namespace with a setting; a zero time before which files expire is now.
func (m *Memory) expiry(namespace string, unread time.Duration, before time.Time) expiry {
	now, floor := m.reads.now(namespace) // both at once: the floor may fall with the clock
	if before.IsZero() {
		before = now
	}
	return expiry{
		unread: unread, floor: floor, before: before,
		viewed: func(id uint64) int64 { return m.reads.last(namespace, id) },
	}
}

// expires returns when a file expires that was last viewed at a time, 0 where it was not, and whether that is before
// the time in question. A pinned file does not.
func (x expiry) expires(n *node, viewed int64) (time.Time, bool) {
	last := max(n.created, n.modified, x.floor)
	if viewed != 0 {
		last = max(last, viewed+int64(readInterval))
	}
	at := time.Unix(0, last).Add(x.unread).UTC()
	return at, x.unread > 0 && !n.dir && !n.pinned && at.Before(x.before)
}

// expiringFile is a file that expires.
type expiringFile struct {
	path    Path
	node    *node
	viewed  int64 // 0 where it was not
	expires time.Time
}

// expiringPage is what expiring has found.
type expiringPage struct {
	files   []expiringFile
	entries int    // how many it has looked at
	key     []byte // of the entry that it has looked at last
	last    bool   // there is none after it
}

// expiring finds files that expire. It begins with the entry after a key, and looks at so many entries, or finds so
// many files.
func (t *tree) expiring(x expiry, after []byte, entries, files int) (expiringPage, error) {
	page := expiringPage{key: after, last: true}
	if x.unread == 0 || t.header.deleting {
		return page, nil
	}
	var keys [][]byte
	opts := kv.ScanOptions{Prefix: []byte{entryPrefix}, From: append(after[:len(after):len(after)], 0)}
	err := t.reader.Scan(opts, func(key, value []byte) error {
		if page.entries == entries || len(page.files) == files {
			page.last = false
			return kv.Stop
		}
		n, err := decodeNode(key, value)
		if err != nil {
			return err
		}
		page.entries, page.key = page.entries+1, key
		if _, yes := x.expires(n, 0); yes {
			page.files = append(page.files, expiringFile{path: keyPath(key), node: n})
			keys = append(keys, readKey(n.id))
		}
		return nil
	})
	page.key = append([]byte(nil), page.key...) // The caller keeps it.
	if err != nil || len(keys) == 0 {
		return page, err
	}
	// When they were viewed matters of those only that would expire without it.
	recorded, err := t.reader.Get(keys...)
	if err != nil {
		return page, err
	}
	found := page.files
	page.files = nil
	for i, e := range found {
		at, err := decodeRead(keys[i], recorded[i])
		if err != nil {
			return page, err
		}
		e.viewed = max(at, x.viewed(e.node.id))
		var yes bool
		if e.expires, yes = x.expires(e.node, e.viewed); yes {
			page.files = append(page.files, e)
		}
	}
	return page, nil
}
