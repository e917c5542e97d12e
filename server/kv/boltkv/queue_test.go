package boltkv

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueue_TakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		q.init()
		taken := make(chan []*update, 1)
		took := func() int {
			synctest.Wait()
			select {
			case updates := <-taken:
				return len(updates)
			default:
				return 0
			}
		}
		wantTaken := func(when string, want int) {
			t.Helper()
			if got := took(); got != want {
				t.Errorf("%s: %d updates were taken, want %d", when, got, want)
			}
		}
		push := func() { q.push(&update{}) }
		take := func(wanted int, limit time.Duration) {
			until := time.Now().Add(limit)
			go func() { taken <- q.take(wanted, until) }()
		}

		take(0, 0)
		wantTaken("nothing waits", 0)
		push()
		wantTaken("nothing is wanted", 1)

		push()
		take(1, time.Hour)
		wantTaken("as many wait as are wanted", 1)

		take(3, time.Hour)
		push()
		push()
		wantTaken("two of three wait", 0)
		push()
		wantTaken("three of three wait", 3)

		take(3, time.Minute)
		push()
		time.Sleep(time.Minute - time.Nanosecond)
		wantTaken("before the limit", 0)
		time.Sleep(time.Nanosecond)
		wantTaken("at the limit", 1)

		take(3, time.Minute)
		time.Sleep(time.Hour)
		wantTaken("nothing waits for an hour", 0)
		push()
		wantTaken("after the limit", 1)

		take(3, time.Hour)
		push()
		wantTaken("one of three waits", 0)
		q.close()
		wantTaken("closed", 1)
		if q.push(&update{}) {
			t.Error("pushed to a queue that is closed")
		}
		if updates := q.take(3, time.Now().Add(time.Hour)); updates != nil {
			t.Errorf("took %d updates from a queue that is closed and empty", len(updates))
		}
	})
}

func TestGathering(t *testing.T) {
	ended := time.Now()
	for _, tt := range []struct {
		name       string
		g          gathering
		wantNumber int
		wantLimit  time.Duration
	}{
		{"at first", gathering{}, 0, 0},
		{"a lone caller", gathering{1, time.Millisecond, ended}, 1, 2 * time.Millisecond},
		{"two", gathering{2, time.Millisecond, ended}, 2, 2 * time.Millisecond},
		{"eight", gathering{8, time.Millisecond, ended}, 6, 2 * time.Millisecond},
		{"many", gathering{64, time.Millisecond, ended}, 48, 2 * time.Millisecond},
		{"a slow disk", gathering{64, time.Second, ended}, 48, maxGatherTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			number, until := tt.g.next()
			if got, want := fmt.Sprint(number, until.Sub(tt.g.ended)), fmt.Sprint(tt.wantNumber, tt.wantLimit); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The committer knows who was answered, and who waited meanwhile.
func TestUpdate_Gathers(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir()})
	mustPut(t, store, "a", "key", "value")
	release := blockCommitter(t, store) // Its turn comes after the commit, and it writes nothing.
	if wanted, _ := store.gathering.next(); wanted != 1 {
		t.Errorf("after a lone caller: got %d wanted, want 1", wanted)
	}
	release()
}
