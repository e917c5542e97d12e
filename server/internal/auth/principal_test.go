package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// principalWith returns a principal with grants such as "acme/** read,write".
func principalWith(t *testing.T, grants ...string) *Principal {
	t.Helper()
	var b strings.Builder
	b.WriteString("principals:\n- name: p\n  uids: [1]\n")
	if len(grants) > 0 {
		b.WriteString("  grants:\n")
	}
	for _, g := range grants {
		pattern, rights, _ := strings.Cut(g, " ")
		b.WriteString("  - {namespaces: ['" + pattern + "'], rights: [" + rights + "]}\n")
	}
	return mustParse(t, b.String()).byUID(1)
}

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrincipal_May_Patterns(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"a", []string{"a"}, []string{"ab", "a/b", "b", "", "a/", "/a", "A"}},
		{"a/b", []string{"a/b"}, []string{"a", "a/bc", "a/b/c", "ab", "b", "aa/b", "x/a/b"}},
		{"a/**", []string{"a/b", "a/b/c", "a/b/c/d"}, []string{"a", "ab", "ab/c", "a/", "b/a/c", ""}},
		{"a/*", []string{"a/b", "a/bc"}, []string{"a", "a/", "a/b/c", "a/b/", "ab"}},
		{"*", []string{"a", "ab"}, []string{"a/b", ""}},
		{"*/**", []string{"a/b", "a/b/c"}, []string{"a", "", "/b"}},
		{"acme/user-*", []string{"acme/user-", "acme/user-42"}, []string{"acme/user", "acme/user-42/x", "acme/xuser-1"}},
		{"*-user", []string{"x-user"}, []string{"user", "x-user-", "x/y-user"}},
		{"a*a", []string{"aa", "aba", "aaa"}, []string{"a", "ab", "ba"}},
		{"a*b*c", []string{"abc", "axbxc", "abbc", "abcbc"}, []string{"ac", "abcb", "acb", "a/b/c"}},
		{"a*bb*b", []string{"abbb", "axbbxb"}, []string{"abb", "ab", "abxb"}},
		{"*/shared/*", []string{"x/shared/y"}, []string{"x/shared", "shared/y", "x/y/shared/z", "x/shared/y/z"}},
		{"*/b/**", []string{"a/b/c", "x/b/c/d"}, []string{"a/b", "b/c", "a/c/b"}},
		{"**", []string{"a", "a/b/c", ""}, nil},
	}
	for _, test := range tests {
		t.Run(test.pattern, func(t *testing.T) {
			p := principalWith(t, test.pattern+" read")
			for _, name := range test.yes {
				if !p.May(Read, name) || !p.MayAny(name) {
					t.Errorf("%q is refused", name)
				}
			}
			for _, name := range test.no {
				if p.May(Read, name) || p.MayAny(name) {
					t.Errorf("%q is allowed", name)
				}
			}
		})
	}
}

// A pattern with many stars takes no time that grows beyond its length.
func TestPrincipal_May_ManyStars(t *testing.T) {
	p := principalWith(t, strings.Repeat("a*", 99)+"b read")
	if p.May(Read, strings.Repeat("a", 200)) {
		t.Error("a name without the last letter is allowed")
	}
	if !p.May(Read, strings.Repeat("a", 199)+"b") {
		t.Error("a name with the last letter is refused")
	}
}

func TestPrincipal_May_Rights(t *testing.T) {
	all := []Right{Read, Write, History, Admin}
	tests := []struct {
		granted string
		want    Right
	}{
		{"read", Read},
		{"write", Read | Write},
		{"history", History},
		{"admin", Admin},
		{"history,admin", History | Admin},
		{"read,write,history,admin", Read | Write | History | Admin},
	}
	for _, test := range tests {
		t.Run(test.granted, func(t *testing.T) {
			here, everywhere := principalWith(t, "a "+test.granted), principalWith(t, "** "+test.granted)
			for _, r := range all {
				want := test.want&r != 0
				if got := here.May(r, "a"); got != want {
					t.Errorf("May(%s) is %t, want %t", r, got, want)
				}
				if here.May(r, "b") {
					t.Errorf("May(%s) is true elsewhere", r)
				}
				if here.MayEverywhere(r) {
					t.Errorf("MayEverywhere(%s) is true for a grant on one namespace", r)
				}
				if got := everywhere.MayEverywhere(r); got != want {
					t.Errorf("MayEverywhere(%s) is %t, want %t", r, got, want)
				}
			}
		})
	}
}

func TestPrincipal_May_Sets(t *testing.T) {
	p := principalWith(t, "a read", "a* history", "a/** admin")
	if !p.May(Read|History, "a") {
		t.Error("rights of two grants are not added up")
	}
	if p.May(Read|Admin, "a") {
		t.Error("one right of two was enough")
	}
	if p.May(0, "a") || p.MayEverywhere(0) || Everyone().May(0, "a") || Everyone().MayEverywhere(0) {
		t.Error("a call that needs no right at all is allowed")
	}
	if p := principalWith(t, "** read", "*/** write", "** admin"); !p.MayEverywhere(Read|Admin) || p.MayEverywhere(Write) {
		t.Error("only what is granted on ** is a right everywhere")
	}
}

func TestPrincipal_WithoutRights(t *testing.T) {
	for name, p := range map[string]*Principal{
		"no grants": principalWith(t), "zero": {}, "no context": FromContext(t.Context()),
		"nil in context": FromContext(NewContext(t.Context(), nil)),
	} {
		t.Run(name, func(t *testing.T) {
			if p.May(Read, "a") || p.MayAny("a") || p.MayEverywhere(Read) || len(p.Ranges()) != 0 {
				t.Error("got a right, want none")
			}
		})
	}
}

func TestEveryone(t *testing.T) {
	p := FromContext(NewContext(t.Context(), Everyone()))
	if p.Name != "" || !p.MayEverywhere(Read|Write|History|Admin) || !p.May(Admin, "a/b") || !p.MayAny("a") {
		t.Errorf("got %+v, want all rights", p)
	}
	if diff := cmp.Diff([]Range{{}}, p.Ranges()); diff != "" {
		t.Errorf("ranges (-want +got)\n%s", diff)
	}
}

func TestPrincipal_Ranges(t *testing.T) {
	tests := []struct {
		name   string
		grants []string
		want   []Range
	}{
		{"exact", []string{"b read", "a read", "b write"}, []Range{{"a", true}, {"b", true}}},
		{"below", []string{"a/** read", "a read"}, []Range{{"a", true}, {"a/", false}}},
		{"within another", []string{"a/b read", "a/b/** read", "a/* read", "a/bc read"}, []Range{{"a/", false}}},
		{"wide before exact of the same name", []string{"a read", "a* read"}, []Range{{"a", false}}},
		{"a segment", []string{"acme/user-* read"}, []Range{{"acme/user-", false}}},
		{"star first", []string{"z read", "*/b read"}, []Range{{"", false}}},
		{"all", []string{"a read", "** admin", "b/** read"}, []Range{{"", false}}},
		{
			"neighbours",
			[]string{"ab/** read", "a/** read", "ab read", "abc* read"},
			[]Range{{"a/", false}, {"ab", true}, {"ab/", false}, {"abc", false}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, principalWith(t, test.grants...).Ranges()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRight_String(t *testing.T) {
	for r, want := range map[Right]string{
		Read: "read", Write: "write", History: "history", Admin: "admin", Read | Write: "read,write", 0: "",
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
