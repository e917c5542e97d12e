//go:build unix

package regular

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile_FIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(fifo, 4); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("got %v, want that a FIFO is refused", err)
	}
}
