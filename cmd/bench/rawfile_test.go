package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What was written is in the file, one after the other, and the first page says where it ends.
func TestRawFile(t *testing.T) {
	const writers, writes = 8, 20
	name := filepath.Join(t.TempDir(), "raw")
	f, err := openRawFile(name, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for range writes {
				if err := f.append(bytes.Repeat([]byte{byte(writer + 1)}, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != rawBytes {
		t.Fatalf("the file has %d bytes, want %d", len(got), rawBytes)
	}
	end := binary.LittleEndian.Uint64(got)
	if want := uint64(rawMetaBytes + writers*writes*100); end != want {
		t.Fatalf("the data ends at %d, want %d", end, want)
	}
	counts := map[byte]int{}
	for at := uint64(rawMetaBytes); at < end; at += 100 {
		piece := got[at : at+100]
		if !bytes.Equal(piece, bytes.Repeat(piece[:1], 100)) {
			t.Fatalf("the write at %d is torn", at)
		}
		counts[piece[0]]++
	}
	for writer := range writers {
		if got := counts[byte(writer+1)]; got != writes {
			t.Errorf("writer %d: %d writes are there, want %d", writer, got, writes)
		}
	}
}

// The file is written over and over.
func TestRawFile_Full(t *testing.T) {
	name := filepath.Join(t.TempDir(), "raw")
	f, err := openRawFile(name, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	half := make([]byte, rawBytes/2)
	for range 3 {
		if err := f.append(half); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != rawBytes {
		t.Errorf("got %v, %v, want %d bytes", info, err, rawBytes)
	}
}
