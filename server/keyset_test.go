package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/testing/fakekms"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// newKeyset makes a keyset in clear, in a directory of its own.
func newKeyset(t testing.TB) Keyset {
	t.Helper()
	k := Keyset{File: filepath.Join(t.TempDir(), "keyset.json")}
	if _, err := NewKeyset(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k
}

func rotateTest(t testing.TB, k Keyset) uint32 {
	t.Helper()
	id, err := RotateKeyset(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var registerFakeKMS = sync.OnceFunc(func() {
	client, err := fakekms.NewClient("fake-kms://")
	if err != nil {
		panic(err)
	}
	registry.RegisterKMSClient(client)
})

// fakeKeyURI returns the URI of a key of a key management service of tests.
func fakeKeyURI(t testing.TB) string {
	t.Helper()
	registerFakeKMS()
	uri, err := fakekms.NewKeyURI()
	if err != nil {
		t.Fatal(err)
	}
	return uri
}

func TestKeyset(t *testing.T) {
	for _, tt := range []struct{ name, keyURI string }{{"in clear", ""}, {"encrypted", fakeKeyURI(t)}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			k := Keyset{File: filepath.Join(dir, "keyset.json"), KeyURI: tt.keyURI}
			first, err := NewKeyset(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			second, third := rotateTest(t, k), rotateTest(t, k)
			got, err := KeysetKeys(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			want := []KeysetKey{
				{ID: first, Enabled: true}, {ID: second, Enabled: true}, {ID: third, Primary: true, Enabled: true},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			info, err := os.Stat(k.File)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("got files %v, %v, want one", entries, err)
			}
			content, err := os.ReadFile(k.File)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(content), `"keyData"`); got != (tt.keyURI == "") {
				t.Errorf("keys in clear: got %v, want %v", got, tt.keyURI == "")
			}

			// What is there is never lost.
			if _, err := NewKeyset(t.Context(), k); !errors.Is(err, fs.ErrExist) {
				t.Errorf("NewKeyset over it: got %v, want %v", err, fs.ErrExist)
			}
			if after, err := os.ReadFile(k.File); err != nil || string(after) != string(content) {
				t.Errorf("the file has changed, %v", err)
			}
		})
	}
}

func TestNewKeyset_Fails(t *testing.T) {
	dir := t.TempDir()
	for _, k := range []Keyset{
		{File: filepath.Join(dir, "none", "keyset.json")},
		{File: filepath.Join(dir, "keyset.json"), KeyURI: "unknown-kms://key"},
	} {
		if _, err := NewKeyset(t.Context(), k); err == nil {
			t.Errorf("%+v: got no error", k)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got files %v, %v, want none", entries, err)
	}
}

// A rotation keeps what a link, a mode and an owner are for.
func TestRotateKeyset_KeepsFile(t *testing.T) {
	k := Keyset{File: filepath.Join(t.TempDir(), "keyset.json"), KeyURI: fakeKeyURI(t)}
	if _, err := NewKeyset(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(k.File, 0o640); err != nil { // It is encrypted, so that a group may read it.
		t.Fatal(err)
	}
	link := Keyset{File: filepath.Join(t.TempDir(), "link"), KeyURI: k.KeyURI}
	if err := os.Symlink(k.File, link.File); err != nil {
		t.Fatal(err)
	}
	rotateTest(t, link)
	if info, err := os.Lstat(link.File); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link: got %v, %v, want it as it was", info.Mode(), err)
	}
	if info, err := os.Stat(k.File); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file: got %v, %v, want mode 0640", info.Mode(), err)
	}
	if got, err := KeysetKeys(t.Context(), k); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v, want two keys", got, err)
	}
}

func TestRotateKeyset_Fails(t *testing.T) {
	k := newKeyset(t)
	before, err := os.ReadFile(k.File)
	if err != nil {
		t.Fatal(err)
	}
	lock := k.File + rotatingSuffix
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := "rotate keyset: " + lock + " is there (file already exists): another rotation runs, or one was killed before it " +
		"took effect; if none runs, remove " + lock + " and rotate again"
	if _, err := RotateKeyset(t.Context(), k); !errors.Is(err, fs.ErrExist) || err.Error() != want {
		t.Errorf("beside another: got %v, want %s", err, want)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]Keyset{
		"none":          {File: k.File + ".none"},
		"not encrypted": {File: k.File, KeyURI: fakeKeyURI(t)},
	} {
		if _, err := RotateKeyset(t.Context(), k); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	after, err := os.ReadFile(k.File)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(k.File)); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want the keyset alone", entries, err)
	}
}

// A directory is told to be one, and nothing is made in it or beside it.
func TestKeyset_Directory(t *testing.T) {
	k := Keyset{File: filepath.Join(t.TempDir(), "keysets")}
	if err := os.Mkdir(k.File, 0o755); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(ctx context.Context, k Keyset) (uint32, error){
		"make keyset": NewKeyset, "rotate keyset": RotateKeyset,
	} {
		want := what + ": " + k.File + " is a directory: name a file in it"
		if _, err := do(t.Context(), k); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, dir := range []string{k.File, filepath.Dir(k.File)} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 || len(entries) == 1 && dir == k.File {
			t.Errorf("got files %v of %s, %v, want none", entries, dir, err)
		}
	}
}

// Many rotations at a time add a key each, or fail: none takes away what another added.
func TestRotateKeyset_AtOnce(t *testing.T) {
	k := newKeyset(t)
	var mu sync.Mutex
	var made []uint32
	var rotating sync.WaitGroup
	for range 8 {
		rotating.Go(func() {
			id, err := RotateKeyset(t.Context(), k)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, id)
			}
		})
	}
	rotating.Wait()
	keys, err := KeysetKeys(t.Context(), k)
	if err != nil || len(made) == 0 || len(keys) != len(made)+1 {
		t.Errorf("got %d keys, %v, want %d and the first", len(keys), err, len(made))
	}
}

func TestKeyset_Unreadable(t *testing.T) {
	good := newKeyset(t)
	content, err := os.ReadFile(good.File)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := Keyset{File: filepath.Join(t.TempDir(), "encrypted.json"), KeyURI: fakeKeyURI(t)}
	if _, err := NewKeyset(t.Context(), encrypted); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name   string
		keyset Keyset
		want   string // part of the error
	}{
		{"no file", Keyset{File: "none.json"}, "none.json"},
		{"group", Keyset{File: write("k", string(content), 0o640)}, "(mode 0640), which holds keys in clear: run chmod 600 "},
		{"others", Keyset{File: write("k", string(content), 0o604)}, "run chmod 600 "},
		{"empty", Keyset{File: write("k", "", 0o600)}, "is no keyset of Tink"},
		{"not JSON", Keyset{File: write("k", "hunter2", 0o600)}, "is no keyset of Tink"},
		{"no keyset", Keyset{File: write("k", `{"hunter2": 1}`, 0o600)}, "is no keyset of Tink"},
		{"cut off", Keyset{File: write("k", string(content[:len(content)/2]), 0o600)}, "is no keyset of Tink"},
		{
			"damaged",
			Keyset{File: write("k", strings.Replace(string(content), `"value":"`, `"value":"?`, 1), 0o600)},
			"is no keyset of Tink",
		},
		{
			"too large",
			Keyset{File: write("k", strings.Repeat(" ", maxKeysetBytes)+string(content), 0o600)},
			"is no keyset of Tink",
		},
		{"no URI", Keyset{File: encrypted.File}, "give its URI"},
		{"URI of a keyset in clear", Keyset{File: good.File, KeyURI: encrypted.KeyURI}, "is not encrypted"},
		{"another URI", Keyset{File: encrypted.File, KeyURI: fakeKeyURI(t)}, "decrypt it with fake-kms://"},
		{"unknown service", Keyset{File: encrypted.File, KeyURI: "other-kms://key"}, "no key management service is known"},
		{"a directory", Keyset{File: t.TempDir()}, "is a directory: name a file in it"},
		{"a directory, with a URI", Keyset{File: t.TempDir(), KeyURI: encrypted.KeyURI}, "is a directory: name a file in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := KeysetKeys(t.Context(), tt.keyset)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, want an error with %q", got, err, tt.want)
			}
			for _, secret := range append(keyValues(t, content), "hunter2") {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error quotes the file: %v", err)
				}
			}
		})
	}
}

// keyValues are the keys of a keyset in clear, in base64.
func keyValues(t testing.TB, content []byte) (values []string) {
	t.Helper()
	var form struct {
		Key []struct {
			KeyData struct{ Value string }
		}
	}
	if err := json.Unmarshal(content, &form); err != nil {
		t.Fatal(err)
	}
	for _, key := range form.Key {
		values = append(values, key.KeyData.Value)
	}
	if len(values) == 0 || values[0] == "" {
		t.Fatal("the keyset has no key")
	}
	return values
}

// stuckKMS is a key management service, of one key, that does not answer until it is released.
type stuckKMS struct {
	uri     string
	release chan struct{}
}

func (s stuckKMS) Supported(uri string) bool { return uri == s.uri }

func (s stuckKMS) GetAEAD(string) (tink.AEAD, error) {
	<-s.release
	return nil, errors.New("released")
}

// A key management service that does not answer stops no start, and no end, for ever.
func TestKeyset_ServiceDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	// A service stays registered, so that each run has one of its own.
	k := Keyset{File: filepath.Join(dir, "keyset.json"), KeyURI: "stuck-kms://" + dir}
	synctest.Test(t, func(t *testing.T) {
		service := stuckKMS{k.KeyURI, make(chan struct{})}
		registry.RegisterKMSClient(service)
		if _, err := NewKeyset(t.Context(), k); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := NewKeyset(ctx, k); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		close(service.release)
	})
}
