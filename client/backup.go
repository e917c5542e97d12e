package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// ErrBackupDamaged means that a backup did not come whole, though the service knows of no error.
var ErrBackupDamaged = errors.New("the backup did not come whole")

// Backup writes a backup of the whole store of the service to w, for `memoryd restore`. The service goes on meanwhile.
// What was written is a backup only where Backup returns nil: then all of it came, as it was sent. An error of w is
// returned wrapped. progress, if it is not nil, is called with the bytes written and those there will be, first with 0
// written. WithTimeout does not apply, since a backup takes as long as the store is large, and nothing is repeated.
func (c *Client) Backup(
	ctx context.Context, req *memoryv1.BackupRequest, w io.Writer, progress func(done, total int64),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that is left before its end
	stream, err := c.admin.Backup(ctx, req)
	if err != nil {
		return identified(err)
	}
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return identified(err)
	}
	header := first.GetHeader()
	if header == nil {
		return status.Error(codes.Internal, "the stream of the backup does not begin with a header")
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	progress(0, header.GetSizeBytes())
	seal := newSealCheck(header.GetSizeBytes())
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return seal.verdict()
		}
		if err != nil {
			return identified(err)
		}
		if _, err := w.Write(part.GetChunk()); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
		seal.add(part.GetChunk())
		progress(seal.done, header.GetSizeBytes())
	}
}

// sealCheck checks the SHA-256 at the end of a backup.
type sealCheck struct {
	size, done int64 // bytes in all, and so far
	hash       hash.Hash
	seal       []byte
}

func newSealCheck(size int64) *sealCheck { return &sealCheck{size: size, hash: sha256.New()} }

// add takes the next bytes.
func (s *sealCheck) add(chunk []byte) {
	s.done += int64(len(chunk))
	content := min(max(0, int64(len(chunk))+s.size-sha256.Size-s.done), int64(len(chunk)))
	s.hash.Write(chunk[:content]) // It never fails.
	if len(s.seal) < sha256.Size {
		s.seal = append(s.seal, chunk[content:]...)
	}
}

// verdict says what is wrong with the backup.
func (s *sealCheck) verdict() error {
	switch {
	case s.done != s.size:
		return fmt.Errorf("%w: %d bytes of %d", ErrBackupDamaged, s.done, s.size)
	case !bytes.Equal(s.seal, s.hash.Sum(nil)):
		return fmt.Errorf("%w: its content does not have the SHA-256 that stands at its end", ErrBackupDamaged)
	}
	return nil
}
