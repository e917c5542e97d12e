package boltkv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func (s *Store) idleCount() int {
	s.idleReads.mu.Lock()
	defer s.idleReads.mu.Unlock()
	return len(s.idleReads.idle)
}

func (s *Store) openReads() int { return s.db.Stats().OpenTxN }

func idleStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeIdle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func putIdle(t *testing.T, s *Store, value string) {
	t.Helper()
	if err := s.Update(t.Context(), "n", func(tx kv.Tx) error { return tx.Put([]byte("k"), []byte(value)) }); err != nil {
		t.Fatal(err)
	}
}

func wantIdle(t *testing.T, s *Store, want string) {
	t.Helper()
	err := s.View(t.Context(), "n", func(r kv.Reader) error {
		values, err := r.Get([]byte("k"))
		if err == nil && string(values[0]) != want {
			err = fmt.Errorf("got %q, want %q", values[0], want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// settle waits until the committer has nothing more to do, so that reads are kept.
func settle(t *testing.T, s *Store) {
	t.Helper()
	for s.idleCount() == 0 {
		if err := s.View(t.Context(), "n", func(kv.Reader) error { return nil }); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// A View sees every update that was answered before it, whether a read was kept or not.
func TestIdleReads_SeeUpdates(t *testing.T) {
	s := idleStore(t)
	defer closeIdle(t, s)
	for i := range 50 {
		putIdle(t, s, fmt.Sprint(i))
		wantIdle(t, s, fmt.Sprint(i))
		if i%2 == 0 {
			settle(t, s)
		}
	}
}

// Reads are used one after the other, and each by one View at a time.
func TestIdleReads_Reuse(t *testing.T) {
	s := idleStore(t)
	defer closeIdle(t, s)
	putIdle(t, s, "v")
	settle(t, s)
	for range 10 {
		wantIdle(t, s, "v")
	}
	if got := s.idleCount(); got != 1 {
		t.Errorf("%d reads are kept, want the one that was used again and again", got)
	}
	err := s.View(t.Context(), "n", func(kv.Reader) error {
		wantIdle(t, s, "v") // Another read is begun for it.
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.idleCount(); got != 2 {
		t.Errorf("%d reads are kept, want 2", got)
	}
}

// A read that is in use while something is committed stays what it was, and is not kept.
func TestIdleReads_DuringACommit(t *testing.T) {
	s := idleStore(t)
	defer closeIdle(t, s)
	putIdle(t, s, "old")
	settle(t, s)
	err := s.View(t.Context(), "n", func(r kv.Reader) error {
		putIdle(t, s, "new")
		values, err := r.Get([]byte("k"))
		if err == nil && string(values[0]) != "old" {
			err = fmt.Errorf("got %q, want what was there when the view began", values[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantIdle(t, s, "new")
}

// Whoever panics or leaves its goroutine in a View leaves no read behind.
func TestIdleReads_Panic(t *testing.T) {
	s := idleStore(t)
	putIdle(t, s, "v")
	settle(t, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach its caller")
			}
		}()
		_ = s.View(t.Context(), "n", func(kv.Reader) error { panic("fault") })
	}()
	if got := s.idleCount(); got != 0 {
		t.Errorf("%d reads are kept, want none", got)
	}
	wantError := errors.New("of the function")
	if err := s.View(t.Context(), "n", func(kv.Reader) error { return wantError }); !errors.Is(err, wantError) {
		t.Errorf("got %v, want %v", err, wantError)
	}
	wantIdle(t, s, "v")
	closeIdle(t, s)
	if got := s.openReads(); got != 0 {
		t.Errorf("%d reads are open after the end", got)
	}
}

// Views and updates at once, while the file grows: it is mapped anew, which waits for all reads.
func TestIdleReads_Growth(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), MapBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIdle(t, s)
	value := make([]byte, 60<<10)
	var views, updates sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		views.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := s.View(t.Context(), "n", func(r kv.Reader) error {
					return r.Scan(kv.ScanOptions{}, func(_, _ []byte) error { return nil })
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		updates.Go(func() {
			for n := range 20 {
				err := s.Update(t.Context(), "n", func(tx kv.Tx) error { return tx.Put(fmt.Appendf(nil, "%d/%d", i, n), value) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	updates.Wait()
	close(stop)
	views.Wait()
}

// A View that begins before a commit and ends after it leaves nothing of before the commit to those that follow.
func TestIdleReads_BegunDuringCommit(t *testing.T) {
	s := idleStore(t)
	defer closeIdle(t, s)
	putIdle(t, s, "old")
	settle(t, s)
	running, released, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- s.Update(context.Background(), "n", func(tx kv.Tx) error {
			close(running)
			<-released
			return tx.Put([]byte("k"), []byte("new"))
		})
	}()
	<-running
	err := s.View(t.Context(), "n", func(kv.Reader) error {
		close(released)
		if err := <-result; err != nil {
			return err
		}
		for keeping := false; !keeping; runtime.Gosched() { // until the committer has nothing more to do
			s.idleReads.mu.Lock()
			keeping = s.idleReads.keeping
			s.idleReads.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantIdle(t, s, "new")
}
