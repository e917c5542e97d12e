package main

import (
	"context"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

// server is a process that is measured. It implements trial.Server.
type server struct {
	*child.Process
	data    string // its directory; "": it has none
	metrics string // the URL of its metrics; "": it has none

	scrapes int
	// cost is what one scrape adds to what is scraped; nil before it is known.
	cost map[string]float64
}

// FileBytes implements trial.Server.
func (s *server) FileBytes() (int64, error) {
	if s.data == "" {
		return 0, nil
	}
	return treeBytes(s.data)
}

// Metrics implements trial.Server. What it costs a server in Go to be asked for metrics is taken off.
func (s *server) Metrics(ctx context.Context) (map[string]float64, error) {
	if s.metrics == "" {
		return nil, nil
	}
	if s.cost == nil {
		if err := s.calibrate(ctx); err != nil {
			return nil, err
		}
	}
	values, err := s.scrape(ctx)
	if err != nil {
		return nil, err
	}
	for name, cost := range s.cost {
		values[name] -= cost * float64(s.scrapes)
	}
	return values, nil
}

func (s *server) scrape(ctx context.Context) (map[string]float64, error) {
	s.scrapes++
	return child.Scrape(ctx, s.metrics)
}

// calibrate finds out what a scrape costs: whatever an idle server counts between two of them. The first ones set up
// what later ones find.
func (s *server) calibrate(ctx context.Context) error {
	var before, after map[string]float64
	for range 4 {
		before = after
		var err error
		if after, err = s.scrape(ctx); err != nil {
			return err
		}
	}
	cost := map[string]float64{}
	for _, name := range []string{"go_memstats_mallocs_total", "go_memstats_alloc_bytes_total"} {
		if _, ok := after[name]; ok {
			cost[name] = after[name] - before[name]
		}
	}
	s.cost = cost
	return nil
}
