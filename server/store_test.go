package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func TestExplainPermission(t *testing.T) {
	refused := fmt.Errorf("open store: %w", &fs.PathError{Op: "open", Path: "/data/memoryd.db", Err: syscall.EACCES})
	got := explainPermission("/data", refused)
	uid, gid := os.Geteuid(), os.Getegid()
	want := fmt.Sprintf("open store: open /data/memoryd.db: permission denied; memoryd runs as user %d and group %d, which "+
		"must be able to read and write /data and all in it: give it to them (mkdir -p /data && chown -R %d:%d /data), or "+
		"run memoryd as its owner", uid, gid, uid, gid)
	if uid >= 0 && got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if !errors.Is(got, fs.ErrPermission) {
		t.Errorf("%v is no fs.ErrPermission any more", got)
	}
	for _, err := range []error{nil, kv.ErrFull, fs.ErrNotExist} {
		if got := explainPermission("/data", err); got != err { //nolint:errorlint // It is to be the same.
			t.Errorf("got %v, want %v", got, err)
		}
	}
}

// A directory that memoryd may not use is explained where the server starts. Root may use every one.
func TestNew_DirectoryIsNotItsOwn(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("NOT RUN: root may write everywhere, and where there are no uids modes of directories are none")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := New(t.Context(), Config{Listen: []string{"127.0.0.1:0"}, Data: dir})
	if want := fmt.Sprintf("memoryd runs as user %d and group", os.Geteuid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}
