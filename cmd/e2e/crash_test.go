package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// crashText is the text of a file, which its name tells, of more than one chunk where the number is odd.
func crashText(worker, file int) string {
	return strings.Repeat(fmt.Sprintf("worker %d, file %d\n", worker, file), 1+file%2*5000)
}

// TestKill ends memoryd with SIGKILL in the middle of writes. Every change that was answered must be there, and every
// one that was not must be there whole or not at all.
func TestKill(t *testing.T) {
	const workers = 8
	d := start(t)
	answered := make([]int, workers) // files that were answered, of each worker
	for round := range 6 {
		killAt := int64(20 + 35*round)
		var count atomic.Int64
		enough := make(chan struct{}) // closed where as many were answered as this round wants
		failures := make(chan string, workers)
		var wg sync.WaitGroup
		for worker := range workers {
			handler := d.dial(t).Handler(fmt.Sprintf("crash/%d", worker%3))
			wg.Go(func() {
				for {
					file := answered[worker]
					input, _ := json.Marshal(map[string]any{
						"command":   "create",
						"path":      fmt.Sprintf("/memories/%d/%d", worker, file),
						"file_text": crashText(worker, file),
					})
					result := handler.Handle(t.Context(), input)
					// What was not answered in the round before may be there.
					if result.IsError && !strings.HasSuffix(result.Text(), "already exists") {
						failures <- result.Text()
						return
					}
					answered[worker]++
					if count.Add(1) == killAt {
						close(enough)
					}
				}
			})
		}
		select {
		case <-enough:
		case failure := <-failures:
			t.Fatalf("round %d: a worker failed before the kill: %s", round, failure)
		}
		d.kill(t)
		wg.Wait()
		d.serve(t)

		c := d.dial(t)
		for worker := range workers {
			handler := c.Handler(fmt.Sprintf("crash/%d", worker%3))
			for file := range answered[worker] + 1 {
				input, _ := json.Marshal(map[string]any{
					"command": "str_replace",
					"path":    fmt.Sprintf("/memories/%d/%d", worker, file),
					"old_str": crashText(worker, file),
					"new_str": crashText(worker, file),
				})
				result := handler.Handle(t.Context(), input)
				missing := strings.HasSuffix(result.Text(), "does not exist. Please provide a valid path.")
				if result.IsError && (!missing || file != answered[worker]) {
					t.Errorf("round %d: file %d of worker %d, answered %d: %.200s",
						round, file, worker, answered[worker], result.Text())
				}
			}
		}
	}
}
