package memory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// newBenchmark returns a Memory on an empty store, with its own clock.
func newBenchmark(b *testing.B) *memory.Memory {
	b.Helper()
	store := memkv.New()
	b.Cleanup(func() { _ = store.Close() })
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkView views one file of 2 KB again and again.
func BenchmarkView(b *testing.B) {
	m := newBenchmark(b)
	must(b, m, memory.Create{Path: "/memories/f", FileText: strings.Repeat("0123456789abcde\n", 128)})
	b.ReportAllocs()
	for b.Loop() {
		must(b, m, memory.View{Path: "/memories/f"})
	}
}

// BenchmarkView_Directory views a directory, which is not noted.
func BenchmarkView_Directory(b *testing.B) {
	m := newBenchmark(b)
	must(b, m, memory.Create{Path: "/memories/f"})
	b.ReportAllocs()
	for b.Loop() {
		must(b, m, memory.View{Path: "/memories"})
	}
}

// BenchmarkCreate creates files of 2 KB, 100 in a namespace, since memkv copies the scope.
func BenchmarkCreate(b *testing.B) {
	m := newBenchmark(b)
	text := strings.Repeat("0123456789abcde\n", 128)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		cmd := memory.Create{Path: fmt.Sprintf("/memories/d/%d", n%100), FileText: text}
		result, err := m.Do(b.Context(), fmt.Sprintf("n/%d", n/100), cmd, memory.Call{})
		if err != nil || result.IsError() {
			b.Fatal(result, err)
		}
		n++
	}
}
