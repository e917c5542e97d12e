package auth

import (
	"bytes"
	"strings"
	"testing"
)

func TestNewToken(t *testing.T) {
	token, hash, err := NewToken(strings.NewReader(strings.Repeat("\xff", 32)))
	if err != nil {
		t.Fatal(err)
	}
	if want := "memoryd_" + strings.Repeat("_", 42) + "8"; token != want {
		t.Errorf("got %q, want %q", token, want)
	}
	if hash != hashOf(token) {
		t.Errorf("got hash %q, want %q", hash, hashOf(token))
	}
	a := New(Options{Policy: mustParse(t, "principals: [{name: p, tokens: ["+hash+"]}]")})
	p, err := a.Authenticate(call(t.Context(), "Bearer "+token))
	wantName(t, p, err, "p")
}

func TestNewToken_WithoutEnoughRandomness(t *testing.T) {
	if token, hash, err := NewToken(bytes.NewReader(make([]byte, 31))); err == nil || token != "" || hash != "" {
		t.Errorf("got %q, %q, %v, want an error alone", token, hash, err)
	}
}
