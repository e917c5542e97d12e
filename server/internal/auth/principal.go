package auth

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Right is what a principal may do in a namespace, as a set of bits.
type Right uint8

const (
	// Read is to view, list and search memories.
	Read Right = 1 << iota
	// Write is to change memories. Whoever is granted it may read as well, since what a change answers shows the text
	// around it.
	Write
	// History is to read versions of memories that were changed or deleted since. It includes no other right.
	History
	// Admin is to change settings and to delete namespaces. It includes no other right.
	Admin
)

const allRights = Read | Write | History | Admin

// rightNames are the rights as they are written in a policy.
var rightNames = []struct {
	right Right
	name  string
}{{Read, "read"}, {Write, "write"}, {History, "history"}, {Admin, "admin"}}

// String returns the rights of the set, such as "read" or "read,write".
func (r Right) String() string {
	var names []string
	for _, n := range rightNames {
		if r&n.right != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// parseRight reads one right and adds what it includes.
func parseRight(name string) (Right, bool) {
	for _, n := range rightNames {
		if n.name == name {
			if n.right == Write {
				return Write | Read, true
			}
			return n.right, true
		}
	}
	return 0, false
}

// Principal is who calls. It never changes and is safe for concurrent use. The zero value may do nothing.
type Principal struct {
	// Name is for the log and the audit trail. It is printable; "" is the name of Everyone and of nobody.
	Name string
	// Credential is what the caller was known by, for the log and the audit trail: "token sha256:9f86d081884c", with the
	// beginning of its hash, "certificate NAME", "jwt SUBJECT" or "uid NUMBER". "" where nobody asked.
	Credential string

	access *access // nil: none
}

// access is what a principal may do.
type access struct {
	grants     []grant
	everywhere Right // granted on "**"
	ranges     []Range
}

// grant gives rights on the namespaces that match a pattern.
type grant struct {
	pattern pattern
	rights  Right
}

func newAccess(grants []grant) *access {
	a := &access{grants: grants, ranges: rangesOf(grants)}
	for _, g := range grants {
		if g.pattern.all() {
			a.everywhere |= g.rights
		}
	}
	return a
}

// May tells whether the principal has a right in a namespace, whether that exists or not. Of a set of rights it must
// have each; no right at all is never granted.
func (p *Principal) May(r Right, namespace string) bool {
	return r != 0 && p.rights(namespace)&r == r
}

// MayAny tells whether the principal has any right in a namespace: listings show it then.
func (p *Principal) MayAny(namespace string) bool { return p.rights(namespace) != 0 }

// MayEverywhere tells whether the principal has a right in all namespaces, those to come included: it is granted on
// the pattern "**". That is what a call about the whole service needs.
func (p *Principal) MayEverywhere(r Right) bool {
	return p.access != nil && r != 0 && p.access.everywhere&r == r
}

func (p *Principal) rights(namespace string) Right {
	if p.access == nil {
		return 0
	}
	rights := p.access.everywhere
	for _, g := range p.access.grants {
		if rights|g.rights != rights && g.pattern.matches(namespace) {
			rights |= g.rights
		}
	}
	return rights
}

// Range is a range of names of namespaces in byte order.
type Range struct {
	Prefix string // of every name in the range
	Exact  bool   // the only name is Prefix
}

// Ranges returns where the namespaces are on which the principal has any right, so that they can be listed without
// reading those of others: in byte order, none within another. There may be names within that MayAny refuses.
// The caller does not change them.
func (p *Principal) Ranges() []Range {
	if p.access == nil {
		return nil
	}
	return p.access.ranges
}

func rangesOf(grants []grant) []Range {
	all := make([]Range, len(grants))
	for i, g := range grants {
		all[i] = g.pattern.span()
	}
	// A range comes before all that lies within it.
	slices.SortFunc(all, func(a, b Range) int {
		if c := cmp.Compare(a.Prefix, b.Prefix); c != 0 || a.Exact == b.Exact {
			return c
		}
		if a.Exact {
			return 1
		}
		return -1
	})
	var ranges []Range
	var wide *Range // the last that is not exact
	for i, r := range all {
		if wide != nil && strings.HasPrefix(r.Prefix, wide.Prefix) || i > 0 && r == all[i-1] {
			continue
		}
		if !r.Exact {
			wide = &all[i]
		}
		ranges = append(ranges, r)
	}
	return ranges
}

var (
	everyone = &Principal{access: newAccess([]grant{{pattern{text: "**", below: true}, allRights}})}
	nobody   = &Principal{}
)

// Everyone returns who calls where no identity is configured: a principal without a name that may do everything.
func Everyone() *Principal { return everyone }

// ContextKey is the type of the key under which a context has who calls, for contexts that know it themselves.
type ContextKey struct{}

// NewContext returns a context that carries who calls.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, ContextKey{}, p)
}

// FromContext returns who calls. Where the context carries nobody, that is a principal without any right, so that a
// way in that was forgotten lets nobody in.
func FromContext(ctx context.Context) *Principal {
	if p, _ := ctx.Value(ContextKey{}).(*Principal); p != nil {
		return p
	}
	return nobody
}
