package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// soak tells whether the long tests run at full length: make soak sets it.
var soak = os.Getenv("MEMORYD_SOAK") != ""

// smallDisk mounts a disk of some megabytes until the test ends.
func smallDisk(t *testing.T, megabytes int) (dir string) {
	t.Helper()
	dir = socketDir(t)
	mount := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), "memoryd-test", dir)
	if out, err := mount.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small disk: %v: %s", err, out)
		}
		t.Skipf("NOT RUN: a small disk cannot be mounted (%v: %s); it takes root, as in CI.", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}

// blob is the contents of a file, which its number tells.
func blob(number, size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(number), byte(number >> 8)})
	data := make([]byte, size)
	_, _ = random.Read(data) // never fails
	return data
}

func put(t *testing.T, c *client.Client, path string, data []byte) error {
	t.Helper()
	resp, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: path}, bytes.NewReader(data))
	if err == nil && resp.GetResult().GetIsError() {
		err = errors.New(resp.GetResult().GetContent()[0].GetText())
	}
	return err
}

func get(t *testing.T, c *client.Client, path string) []byte {
	t.Helper()
	var data bytes.Buffer
	header, err := c.Get(t.Context(), &memoryv1.GetRequest{Path: path}, &data)
	if err != nil || header.GetResult().GetIsError() {
		t.Errorf("get %s: %v %v", path, header, err)
	}
	return data.Bytes()
}

// awaitHealth waits until the health of a service is as it should be.
func awaitHealth(t *testing.T, d *daemon, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	conn, err := grpc.NewClient(d.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{
		Service: memoryv1.MemoryService_ServiceDesc.ServiceName,
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetStatus() == want {
			return
		}
	}
}

// TestFullDisk fills a disk of 64 MB, empties the memory, and fills it again.
func TestFullDisk(t *testing.T) {
	const size = 1 << 20
	disk := smallDisk(t, 64)
	d := &daemon{data: filepath.Join(disk, "data"), target: "unix://" + filepath.Join(socketDir(t), "memoryd.sock")}
	t.Cleanup(func() {
		d.stop(t)
		if out, err := exec.Command(binary("memoryd"), "check", "--data", d.data).CombinedOutput(); err != nil {
			t.Errorf("memoryd check: %v\n%s", err, out)
		}
	})
	d.serve(t)
	c := d.dial(t)
	var filled []int
	for round := range 3 {
		files := 0
		var err error
		for ; err == nil; files++ {
			err = put(t, c, fmt.Sprintf("/memories/%d", files), blob(files, size))
		}
		files-- // the last was refused
		filled = append(filled, files)
		if status.Code(err) != codes.ResourceExhausted || client.Reason(err) != "STORE_FULL" {
			t.Fatalf("round %d: the full disk gave %v", round, err)
		}
		awaitHealth(t, d, healthpb.HealthCheckResponse_NOT_SERVING)
		out := d.ctl(t, nil, "backup", filepath.Join(socketDir(t), "backup"))
		if out.status != 4 || !strings.Contains(out.stderr, "no room in the data directory for the copy") {
			t.Errorf("round %d: backup on a full disk: %d %s", round, out.status, out.stderr)
		}
		if _, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories"}); err != nil {
			t.Errorf("round %d: view on a full disk: %v", round, err)
		}
		for i := range files {
			if !bytes.Equal(get(t, c, fmt.Sprintf("/memories/%d", i)), blob(i, size)) {
				t.Errorf("round %d: file %d was answered and is another", round, i)
			}
		}
		if round == 1 { // A restart on a full disk changes nothing.
			d.stop(t)
			d.serve(t)
		}
		for i := range files {
			resp, err := c.Delete(t.Context(), &memoryv1.DeleteRequest{Path: fmt.Sprintf("/memories/%d", i)})
			if err != nil || resp.GetResult().GetIsError() {
				t.Fatalf("round %d: delete on a full disk: %v %v", round, resp.GetResult(), err)
			}
		}
		awaitHealth(t, d, healthpb.HealthCheckResponse_SERVING)
	}
	t.Logf("files of 1 MiB until the disk of 64 MB was full, each round: %v", filled)
	if filled[0] < 40 || filled[2] < filled[0]*9/10 {
		t.Errorf("filled %v files, want at least 40, and as many again", filled)
	}
}

// TestChurn writes far more through a store of 10 MB than it holds: its file stays bounded, and compaction returns what
// is free.
func TestChurn(t *testing.T) {
	const files, size = 10, 1 << 20
	rounds := 10
	if soak {
		rounds = 100 // 1 GB
	}
	d := start(t)
	c := d.dial(t)
	fileSize := func() int64 {
		t.Helper()
		info, err := os.Stat(filepath.Join(d.data, "memoryd.db"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for round := range rounds {
		for i := range files {
			if err := put(t, c, fmt.Sprintf("/memories/%d", i), blob(round*files+i, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := fileSize()
	d.stop(t)
	if out, err := exec.Command(binary("memoryd"), "compact", "--data", d.data).CombinedOutput(); err != nil {
		t.Fatalf("memoryd compact: %v\n%s", err, out)
	}
	after := fileSize()
	t.Logf("%d MB written through %d MB: the file has %d bytes, and %d after compaction", rounds*files, files, before, after)
	if before > 4*files*size || after > files*size*13/10 {
		t.Errorf("the file has %d bytes, and %d after compaction", before, after)
	}
	d.serve(t)
	for i := range files {
		if !bytes.Equal(get(t, c, fmt.Sprintf("/memories/%d", i)), blob((rounds-1)*files+i, size)) {
			t.Errorf("file %d is another after compaction", i)
		}
	}
}

// TestKillDuringRename ends memoryd while it moves a directory of 1,000 files: they are all at the old path or all at
// the new one.
func TestKillDuringRename(t *testing.T) {
	const files = 1000
	d := start(t)
	c := d.dial(t)
	var batch []*memoryv1.ApplyCommand
	for i := range files {
		batch = append(batch, &memoryv1.ApplyCommand{
			Input: fmt.Sprintf(`{"command":"create","path":"/memories/here/%d","file_text":"%d"}`, i, i),
		})
		if len(batch) == 50 {
			resp, err := c.Apply(t.Context(), &memoryv1.ApplyRequest{Commands: batch})
			if err != nil || resp.GetResult().GetIsError() {
				t.Fatal(resp, err)
			}
			batch = nil
		}
	}
	count := func(dir string) int64 {
		t.Helper()
		resp, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetEntry().GetFileCount() // none where it does not exist
	}
	from, to := "/memories/here", "/memories/there"
	for round := range 10 {
		done := make(chan error, 1)
		go func() {
			resp, err := c.Rename(t.Context(), &memoryv1.RenameRequest{OldPath: from, NewPath: to})
			if err == nil && resp.GetResult().GetIsError() {
				err = errors.New(resp.GetResult().GetContent()[0].GetText())
			}
			done <- err
		}()
		// Some rounds later than others, by commands that are answered meanwhile.
		for range round * 3 {
			if _, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories"}); err != nil {
				t.Fatal(err)
			}
		}
		d.kill(t)
		d.serve(t)
		if err := <-done; err != nil { // the client repeated it
			t.Fatalf("round %d: rename: %v", round, err)
		}
		if gone, there := count(from), count(to); gone != 0 || there != files {
			t.Fatalf("round %d: %d files at the old path and %d at the new one", round, gone, there)
		}
		from, to = to, from
	}
}
