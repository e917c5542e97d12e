package screen

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		words string
		text  string
		want  bool
	}{
		{"key", "", false},
		{"key", "ke y", false},
		{"key", "a monkey", true},
		{"key", "A KEY", true},
		{"Key", "a key", true},
		{"key", "kekey", true},
		{"abcd bc", "abce", true}, // within what another word began with
		{"abcd bc", "abd", false},
		{"aab", "aaaab", true},
		{"a_b. -", "x a_b. y", true},
		{"key", "\xff\x00é", false},
		{"key", kelvin + "ey", true},
		{"api", "AP" + dottedI, true},
		{"é", "e", true}, // It cannot tell.
		{"", "a", false},
	} {
		if got := newWords(strings.Fields(tt.words)).in(tt.text); got != tt.want {
			t.Errorf("%q in %q: got %v, want %v", tt.words, tt.text, got, tt.want)
		}
	}
	if !newWords([]string{""}).in("") {
		t.Error("the empty word is not in the empty text")
	}
}

// No other letters become ones of ASCII.
func TestWords_Letters(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		letter := string(r)
		if lower := strings.ToLower(letter); lower[0] < utf8.RuneSelf && letter != kelvin && letter != dottedI {
			t.Errorf("%U becomes %q", r, lower)
		}
	}
}

// TestWords_Any compares words with what the detector does, for texts of their letters and of any.
func TestWords_Any(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abAB1_")), 1, 5, -1), 0, 6).Draw(t, "words")
		text := rapid.OneOf(
			rapid.StringOf(rapid.RuneFrom([]rune("abAB1_ cé"))), rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		).Draw(t, "text")
		want := false
		for _, word := range list {
			want = want || strings.Contains(strings.ToLower(text), strings.ToLower(word))
		}
		got := newWords(list).in(text)
		if got != want && !strings.Contains(text, kelvin) && !strings.Contains(text, dottedI) {
			t.Errorf("%q in %q: got %v, want %v", list, text, got, want)
		}
	})
}

// All rules have words, so that a text without any of them is not searched.
func TestWords_OfRules(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]*words{"rules": all.rules.words, "generic": all.generic.words} {
		if w.in("The quick brown fox jumps over the lazy dog.\n") {
			t.Errorf("%s: the words are in a plain text", name)
		}
	}
}
