package memory

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxRecent is how many namespaces are remembered; about 400 bytes each, and the
// paths of largest.
const maxRecent = 20_000

// recent is what is remembered of a namespace after its last transaction, for what is decided before the next. A
// namespace that is forgotten, since so many others were used, is one never seen.
type recent struct {
	mu       sync.Mutex
	settings Settings      // in force; no field is nil
	calls    *rate.Limiter // nil where there is no limit

	looking chan struct{} // has something while somebody looks for the largest files, who may use largest
	largest largest
}

func newRecents() *lru.Cache[string, *recent] {
	recents, err := lru.New[string, *recent](maxRecent)
	if err != nil { // Only of a size that is not positive.
		panic(err)
	}
	return recents
}

// trace is what is remembered of a transaction. The last run of it counts.
type trace struct {
	settings Settings // in force; all fields are nil where they were not read
	viewed   []viewed
	replayed bool // the results are those that were recorded for the request

	screening *screening // of the call; nil where texts are not searched for secrets
}

// viewed is a file that View has shown.
type viewed struct {
	path Path
	node *node
}

// reset forgets everything, and keeps the room for it.
func (tr *trace) reset() {
	clear(tr.viewed)
	*tr = trace{viewed: tr.viewed[:0]}
}

func (tr *trace) view(p Path, n *node) { tr.viewed = append(tr.viewed, viewed{p, n}) }

// remember takes in what a transaction has left, which had an error or not. known is what was remembered of the
// namespace before, nil where nobody has looked.
func (m *Memory) remember(namespace string, known *recent, tr *trace, err error) {
	if tr.settings.CallsPerSecond != nil {
		if known == nil {
			known = m.recent(namespace)
		}
		known.learn(&tr.settings, m.now)
	}
	if err == nil {
		for _, v := range tr.viewed {
			m.reads.note(namespace, v.path, v.node, m.now().UnixNano())
		}
	}
}

// recent returns what is remembered of a namespace, which may be nothing yet.
func (m *Memory) recent(namespace string) *recent {
	if r, ok := m.recents.Get(namespace); ok {
		return r
	}
	r := &recent{looking: make(chan struct{}, 1)}
	if other, ok, _ := m.recents.PeekOrAdd(namespace, r); ok { // It was added meanwhile.
		return other
	}
	return r
}
