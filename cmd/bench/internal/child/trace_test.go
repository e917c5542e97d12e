package child

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTrace(t *testing.T) {
	const trace = `4242  pwrite64(7, ""..., 8192, 12288) = 8192
4242  fdatasync(7)                      = 0
4243  pwrite64(7, ""..., 16384, 0 <unfinished ...>
4242  fdatasync(7 <unfinished ...>
4243  <... pwrite64 resumed>)           = 16384
4242  <... fdatasync resumed>)          = 0
4243  pwrite64(7, ""..., 100, 0)        = -1 ENOSPC (No space left on device)
4242  fsync(9)                          = 0
4242  fsync(9)                          = -1 EIO (Input/output error)
4242  ftruncate(7, 33554432)           = 0
4243  fdatasync(7)                      = 0
4242  fsync(7)                          = 0
4242  fdatasync(7)                      = 0
4244  +++ exited with 0 +++
4243  pwrite64(7, ""..., 4096, 0 <detached ...>
`
	got, err := parseTrace(strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Calls{Writes: 2, Bytes: 8192 + 16384, Syncs: 5}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
