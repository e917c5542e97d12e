package boltkv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

var (
	flips    = flag.Int("flips", 300, "how many `bits` TestDamage_AnyBit flips")
	flipSeed = flag.Uint64("flip-seed", 1, "of which bits TestDamage_AnyBit flips")
)

const (
	// maxFlipBytes is the most memory that may be allocated for all that is done with one damaged store, which has
	// some hundred pages.
	maxFlipBytes = 256 << 20
	// flipTimeout is after how long a child hangs.
	flipTimeout = 30 * time.Second
)

// fillPages writes a store of some hundred pages: records, small and large contents, and free pages.
func fillPages(t *testing.T, store *Store) {
	t.Helper()
	for i := range 30 {
		err := store.Update(t.Context(), "scope", func(tx kv.Tx) error {
			for j := range 50 {
				key := fmt.Sprintf("%04d-%s", (i*37+j*30)%3000, strings.Repeat("k", 40+j*10))
				if err := put(key, strings.Repeat("v", j))(tx); err != nil {
					return err
				}
			}
			return put("\xff"+fmt.Sprint(i), strings.Repeat("contents", i*i*4))(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		err := store.Update(t.Context(), "scope", func(tx kv.Tx) error { return tx.Delete([]byte("\xff" + fmt.Sprint(2*i))) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// flipStores are the bytes of a store that is in use, and of the same one after it was closed.
func flipStores(t *testing.T) (unclean, clean []byte) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	store := openTest(t, Options{Dir: dir})
	fillPages(t, store)
	unclean, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if clean, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return unclean, clean
}

// flipBits returns places of bits in the pages that are in use. Most of the bits of a store are those of values, so
// every other is one of a head or a table of elements.
func flipBits(pages []byte, n int) []int {
	random := rand.New(rand.NewPCG(*flipSeed, 0))
	bits := make([]int, n)
	for i := range bits {
		page := random.IntN(len(pages)/pageSize) * pageSize
		size := pageSize
		if i%2 == 0 {
			h := parseHead(pages[page:])
			size = min(pageSize, headBytes+elementBytes*h.count)
			if h.count > 0 && random.IntN(2) == 0 {
				size = headBytes + elementBytes
			}
		}
		bits[i] = (page+random.IntN(size))*8 + random.IntN(8)
	}
	return bits
}

// childSurvive reads names of directories, whose stores it uses, and writes a line when it survived one.
func childSurvive(string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := useDamaged(lines.Text())
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil && n > maxFlipBytes {
			err = fmt.Errorf("allocated %d MiB", n>>20)
		}
		if err != nil {
			fmt.Fprintf(os.Stdout, "%q\n", err)
			continue
		}
		fmt.Fprintln(os.Stdout, "ok")
	}
	return 0
}

// useDamaged does all that can be done with a store, and returns an error for one that nobody may give.
func useDamaged(dir string) error {
	ctx := context.Background()
	for _, readOnly := range []bool{true, false} {
		store, err := Open(ctx, Options{Dir: dir, ReadOnly: readOnly})
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) {
				return fmt.Errorf("Open: %w", err)
			}
			continue
		}
		errs := map[string]error{"Check": store.Check(ctx)}
		errs["View"] = store.View(ctx, "scope", readAll)
		_, errs["Scopes"] = store.Scopes(ctx, "", 10)
		if !readOnly {
			errs["Update"] = store.Update(ctx, "scope", func(tx kv.Tx) error {
				for i := range 30 {
					key := fmt.Sprintf("%04d", 100*i)
					if err := errors.Join(put(key, "new")(tx), put("\xff"+key, "new")(tx)); err != nil {
						return err
					}
				}
				err := tx.Scan(kv.ScanOptions{From: []byte("1"), Limit: 300, KeysOnly: true}, func(key, _ []byte) error {
					_ = strings.Clone(string(key))
					return nil
				})
				if err != nil {
					return err
				}
				return readAll(tx)
			})
			errs["write"] = store.Update(ctx, "scope", deleteSome)
		}
		errs["Close"] = store.Close()
		for name, err := range errs {
			if err != nil && !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrReadOnly) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// readAll reads every byte of a scope.
func readAll(r kv.Reader) error {
	sum := crc32.NewIEEE()
	err := r.Scan(kv.ScanOptions{}, func(key, value []byte) error {
		_, err := sum.Write(key)
		if err == nil {
			_, err = sum.Write(value)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range 30 {
		values, err := r.Get(fmt.Appendf(nil, "%04d", 100*i), fmt.Appendf(nil, "\xff%d", i))
		if err != nil {
			return err
		}
		if _, err := sum.Write(values[1]); err != nil {
			return err
		}
	}
	return nil
}

// deleteSome writes all over the trees without having read them.
func deleteSome(tx kv.Tx) error {
	for i := range 100 {
		for j := range 3 {
			key := fmt.Sprintf("%04d-%s", (i*37+j*30)%3000, strings.Repeat("k", 40+j*10))
			if err := tx.Delete([]byte(key)); err != nil {
				return err
			}
		}
		if err := put(fmt.Sprintf("%04d-new", 30*i), "value")(tx); err != nil {
			return err
		}
		if err := put(fmt.Sprintf("\xff%d", i%30), "value")(tx); err != nil {
			return err
		}
	}
	return nil
}

// survive has a child use a damaged store, and fails the test where that was too much for it.
func survive(t *testing.T, c *child, what, dir string) {
	t.Helper()
	hangs := time.AfterFunc(flipTimeout, func() { _ = c.cmd.Process.Kill() })
	fmt.Fprintln(c.stdin, dir)
	line := c.line()
	hung := !hangs.Stop()
	switch {
	case line == "ok":
	case line != "":
		t.Fatalf("%s: got %s", what, line)
	case hung:
		t.Fatalf("%s: it hangs", what)
	default:
		t.Fatalf("%s: it ended", what)
	}
}

// Whatever bit of a store is wrong, it costs errors at most: no crash, no hang, no memory without bounds.
func TestDamage_AnyBit(t *testing.T) {
	unclean, clean := flipStores(t)
	child := startChild(t, "survive", "")
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	for name, pages := range map[string][]byte{"unclean": unclean, "clean": clean} {
		for _, bit := range flipBits(pages, *flips/2) {
			damaged := append([]byte{}, pages...)
			damaged[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "unclean" {
				if err := os.WriteFile(filepath.Join(dir, lockName), []byte(`{"pid": 1}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			at := bit / 8
			what := fmt.Sprintf("%s store with bit %d of byte %d of page %d", name, bit%8, at%pageSize, at/pageSize)
			survive(t, child, what, dir)
		}
	}
}

// branches returns the branches of a bucket in a file.
func branches(t *testing.T, data []byte, bucket []byte) (root uint64, ids []uint64) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	store := openTest(t, Options{Dir: dir, ReadOnly: true})
	err := store.db.View(func(tx *bolt.Tx) error {
		pages := store.pagesOf(tx)
		root = uint64(tx.Bucket(bucket).Root())
		for queue := []uint64{root}; len(queue) > 0; queue = queue[1:] {
			n := &node{}
			if err := pages.read(queue[0], n); err != nil {
				return err
			}
			if !n.branch() {
				continue
			}
			ids = append(ids, n.id)
			for i := range n.count {
				queue = append(queue, n.element(i).child)
			}
		}
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 {
		t.Fatalf("bucket %s has no branches", bucket)
	}
	return root, ids
}

// Pages that lead back to where they were reached from would have bbolt run in circles.
func TestDamage_Circle(t *testing.T) {
	unclean, clean := flipStores(t)
	child := startChild(t, "survive", "")
	for name, data := range map[string][]byte{"unclean": unclean, "clean": clean} {
		root, ids := branches(t, data, bucketMeta)
		for _, id := range ids {
			dir := t.TempDir()
			damaged := append([]byte{}, data...)
			// The first child of the branch.
			binary.NativeEndian.PutUint64(damaged[id*pageSize+headBytes+8:], root)
			if err := os.WriteFile(filepath.Join(dir, fileName), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			survive(t, child, fmt.Sprintf("%s store with a circle at page %d", name, id), dir)
			for _, readOnly := range []bool{true, false} {
				_, err := Open(t.Context(), Options{Dir: dir, ReadOnly: readOnly})
				if want := fmt.Sprintf("%s is damaged: page %d: ", fileName, root); !errors.Is(err, kv.ErrCorrupt) ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("Open with ReadOnly %v: got error %v, want %v with %q", readOnly, err, kv.ErrCorrupt, want)
				}
			}
		}
	}
}

// A store that was not closed cleanly is opened only where all of it is sound. What is wrong is one line.
func TestDamage_Unclean(t *testing.T) {
	unclean, _ := flipStores(t)
	root, _ := branches(t, unclean, bucketBulk)
	for _, tt := range []struct {
		name string
		at   int // byte of the page
		bit  byte
		want string
	}{
		{"id", 0, 1, "has the id"},
		{"type", 8, 1 << 2, "which is none of a tree"},
		{"count", 10, 1, "element 0 is at byte"},
		{"large count", 11, 1 << 7, "has no room for"},
		{"overflow", 12, 1, "pages for what needs"},
		{"wild overflow", 15, 1 << 6, "beyond the last"},
		{"child", headBytes + 8, 1, "page"},
		{"wild child", headBytes + 8 + 5, 1, "does not exist"},
		{"size of a key", headBytes + 4 + 3, 1, "element 0 is at byte"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			damaged := append([]byte{}, unclean...)
			damaged[int(root)*pageSize+tt.at] ^= tt.bit
			err := errors.Join(os.WriteFile(filepath.Join(dir, fileName), damaged, 0o600),
				os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), Options{Dir: dir})
			if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open: got error %v, want a line that wraps %v and has %q", err, kv.ErrCorrupt, tt.want)
			}
			if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil { // The next start must look as closely.
				t.Errorf("LOCK: %v", err)
			}
		})
	}
}

// overwrite writes to the file of a store that is open.
func overwrite(t *testing.T, dir string, data []byte, at int64) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, fileName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(data, at)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// faultyStore is a store that is open, whose large value cannot be read from the disk. Its memory is a fault.
func faultyStore(t *testing.T) (store *Store, mend func()) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	store = openTest(t, Options{Dir: dir})
	mustPut(t, store, "scope", "key", "value")
	mustPut(t, store, "scope", "\xfflarge", strings.Repeat("v", kv.MaxValueBytes))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := int64(bytes.Index(data, []byte(strings.Repeat("v", 2*pageSize)))/pageSize+1) * pageSize
	if err := os.Truncate(path, cut); err != nil {
		t.Fatal(err)
	}
	return store, func() { overwrite(t, dir, data, 0) }
}

// What is lent to a function can turn out not to be there. That is the call's error, not the end of the process.
func TestFault(t *testing.T) {
	store, mend := faultyStore(t)
	read := func(r kv.Reader) error {
		values, err := r.Get([]byte("\xfflarge"))
		if err != nil {
			return err
		}
		return fmt.Errorf("read %d bytes", len(bytes.Clone(values[0])))
	}
	for name, err := range map[string]error{
		"View":   store.View(t.Context(), "scope", read),
		"Update": store.Update(t.Context(), "scope", func(tx kv.Tx) error { return read(tx) }),
		"Scan": store.View(t.Context(), "scope", func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(_, value []byte) error {
				_ = bytes.Clone(value)
				return nil
			})
		}),
	} {
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got error %v, want %v", name, err, kv.ErrCorrupt)
		}
	}
	mend()
	mustPut(t, store, "scope", "other", "value")
}

// A caller's own nil pointer is not damage.
func TestFault_OfCaller(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir()})
	var missing *struct{ n int }
	for name, call := range map[string]func() error{
		"View": func() error {
			return store.View(t.Context(), "a", func(kv.Reader) error { missing.n++; return nil })
		},
		"Update": func() error {
			return store.Update(t.Context(), "a", func(kv.Tx) error { missing.n++; return nil })
		},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil {
					t.Errorf("%s: got no panic, want that of the caller", name)
				}
			}()
			t.Errorf("%s: got error %v, want a panic", name, call())
		}()
	}
	mustPut(t, store, "a", "key", "value")
}

// bulkLeaf returns the place in the file of a value's page.
func bulkLeaf(t *testing.T, store *Store) (at int64) {
	t.Helper()
	err := store.db.View(func(tx *bolt.Tx) error {
		at = int64(tx.Bucket(bucketBulk).Root()) * pageSize
		return nil
	})
	if err != nil || at == 0 {
		t.Fatalf("page of contents: got %d, error %v", at, err)
	}
	return at
}

// A size that is damaged while the store runs is neither believed nor written.
func TestDamage_Size(t *testing.T) {
	for _, size := range []uint32{maxStoredBytes + 1, 1 << 31} {
		dir := t.TempDir()
		store, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() }) // It is damaged.
		mustPut(t, store, "scope", "key", "value")
		mustPut(t, store, "scope", "\xfflarge", strings.Repeat("v", pageSize))
		damaged := binary.NativeEndian.AppendUint32(nil, size)
		overwrite(t, dir, damaged, bulkLeaf(t, store)+headBytes+12)

		for name, read := range map[string]func(r kv.Reader) error{
			"Get":  func(r kv.Reader) error { _, err := r.Get([]byte("\xfflarge")); return err },
			"Scan": readAll,
		} {
			if err := store.View(t.Context(), "scope", read); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("size of %d: %s: got error %v, want %v", size, name, err, kv.ErrCorrupt)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := store.Update(t.Context(), "scope", put("\xffother", "x")); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("size of %d: Update: got error %v, want %v", size, err, kv.ErrCorrupt)
		}
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20); got > most {
			t.Errorf("size of %d: Update allocated %d bytes, want at most %d", size, got, most)
		}
		if err := store.Health(); !errors.Is(err, kv.ErrReadOnly) {
			t.Errorf("size of %d: Health: got error %v, want %v", size, err, kv.ErrReadOnly)
		}
		if got, want := get(t, store, "scope", "key"), "value"; got != want {
			t.Errorf("size of %d: got %q, want %q", size, got, want)
		}
	}
}

// A list of free pages that names a page in use would have that written over.
func TestDamage_FreeList(t *testing.T) {
	_, clean := flipStores(t)
	root, _ := branches(t, clean, bucketMeta)
	damaged := append([]byte{}, clean...)
	found := false
	for at := 2 * pageSize; at < len(damaged); at += pageSize {
		if h := parseHead(damaged[at:]); h.flags == flagFreeList && h.count > 0 {
			binary.NativeEndian.PutUint64(damaged[at+headBytes:], root)
			found = true
		}
	}
	if !found {
		t.Fatal("found no list of free pages")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dir: dir})
	want := fmt.Sprintf("page %d: is used twice, or used and free", root)
	if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: got error %v, want %v with %q", err, kv.ErrCorrupt, want)
	}
}
