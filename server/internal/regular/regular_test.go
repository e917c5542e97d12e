package regular

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if got, err := ReadFile(name, 4); err != nil || string(got) != "1234" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		dir: "regular file", filepath.Join(dir, "none"): "no such file", os.DevNull: "regular file",
	} {
		if _, err := ReadFile(name, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q in it", name, err, want)
		}
	}
	if _, err := ReadFile(file, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("got %v, want that the file is too large", err)
	}
}
