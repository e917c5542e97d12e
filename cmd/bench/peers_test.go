package main

import (
	"context"
	"errors"
	"testing"
)

// Every peer keeps what it is given, and fails where it has nothing.
func TestPeers(t *testing.T) {
	for _, test := range []struct {
		name  string
		start func(b *bench, ctx context.Context) (*peer, error)
	}{{nameEtcd, (*bench).startEtcd}, {nameRedis, (*bench).startRedis}, {namePostgres, (*bench).startPostgres}} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "")
			p, err := test.start(b, t.Context())
			if errors.Is(err, errNotInstalled) {
				t.Skipf("*** NOT RUN: %v ***", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.fill(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				if err := p.get(t.Context(), pathOf(n)); err != nil {
					t.Errorf("get %d: %v", n, err)
				}
			}
			if err := p.get(t.Context(), pathOf(3)); err == nil {
				t.Error("what was never put is got")
			}
			if b.report.Versions[test.name] == "" {
				t.Error("the report does not have the version")
			}
		})
	}
}

func TestTool(t *testing.T) {
	b := newBench(t, "")
	tool, err := b.startTool(t.Context())
	if errors.Is(err, errNotInstalled) {
		t.Skipf("*** NOT RUN: %v ***", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"view", "list", "create"} {
		sample, err := tool.subject(do).Run(t.Context(), toolCallers, quickSlice/10)
		if err != nil || sample.Calls < toolCallers || sample.P50 <= 0 || sample.P99 < sample.P50 {
			t.Errorf("%s: got %+v, %v", do, sample, err)
		}
	}
	if _, err := tool.do(t.Context(), toolJob{Do: "nothing", Callers: 1, Millis: 1}); err == nil {
		t.Error("what the tool cannot do is no error")
	}
}
