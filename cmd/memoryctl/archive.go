package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	// archiveBuffer is how much of an archive is read at a time.
	archiveBuffer = 64 << 10
	// freeExpandedBytes is what a gzipped archive may always expand to, and maxExpansion how many times its size it may
	// expand to beyond. Text shrinks to a fifth, a tar of tiny files to a fiftieth, and zeros to a thousandth.
	freeExpandedBytes = 64 << 20
	maxExpansion      = 200
	// maxTrailingBytes is how much is read after the end of a tar: what tar fills its last record with, and the checksum
	// of gzip.
	maxTrailingBytes = 1 << 20
)

var (
	errNoArchive = errors.New("this is no tar archive")
	errCutOff    = errors.New("the archive is cut off")
	errExpands   = fmt.Errorf("the archive expands more than %d times, as a decompression bomb does; "+
		"if it is none, decompress it first", maxExpansion)
)

// archive reads a tar, gzipped or not, that nobody vouches for.
type archive struct {
	tar     *tar.Reader
	in      *endReader
	entries int
}

// openArchive reads the first bytes of r.
func openArchive(r io.Reader) (*archive, error) {
	raw := bufio.NewReaderSize(r, archiveBuffer)
	magic, err := raw.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	in := &endReader{r: raw}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		compressed := &countingReader{r: raw}
		unzipped, err := gzip.NewReader(bufio.NewReader(compressed))
		if err != nil {
			return nil, archiveError(err)
		}
		in.r = bufio.NewReaderSize(&expansionLimit{r: unzipped, compressed: compressed}, archiveBuffer)
	}
	return &archive{tar: tar.NewReader(in), in: in}, nil
}

// next returns the header of the next entry, and io.EOF at the end of a complete archive.
func (a *archive) next() (*tar.Header, error) {
	h, err := a.tar.Next()
	switch {
	case err == nil || errors.Is(err, tar.ErrInsecurePath): // names are checked in any case
		a.entries++
		return h, nil
	case errors.Is(err, tar.ErrHeader) && a.entries == 0:
		return nil, errNoArchive
	case !errors.Is(err, io.EOF):
		return nil, archiveError(err)
	case a.in.ended: // without the two empty blocks that end a tar
		return nil, errCutOff
	}
	if _, err := io.CopyN(io.Discard, a.in, maxTrailingBytes); err != nil && !errors.Is(err, io.EOF) {
		return nil, archiveError(err)
	}
	return nil, io.EOF
}

// read reads the bytes of the current entry into buf, which has its size.
func (a *archive) read(buf []byte) error {
	if _, err := io.ReadFull(a.tar, buf); err != nil {
		return archiveError(err)
	}
	return nil
}

func archiveError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return errCutOff
	case errors.Is(err, tar.ErrHeader) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.As(err, &corrupt):
		return errors.New("the archive is damaged")
	default:
		return err
	}
}

// endReader remembers that its reader ended.
type endReader struct {
	r     io.Reader
	ended bool
}

func (e *endReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.ended = e.ended || errors.Is(err, io.EOF)
	return n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// expansionLimit fails with errExpands where a little compressed data becomes too much.
type expansionLimit struct {
	r          io.Reader
	compressed *countingReader
	n          int64
}

func (l *expansionLimit) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	l.n += int64(n)
	if l.n > freeExpandedBytes+maxExpansion*l.compressed.n {
		return 0, errExpands
	}
	return n, err
}

// sourceReader is the file that an archive is in: its reads end with the context, and show progress.
type sourceReader struct {
	ctx      context.Context // of the one loop that reads it
	r        io.Reader
	progress *progress
}

func (s *sourceReader) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.progress.add(n)
	return n, err
}
