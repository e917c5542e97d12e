package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// maxBackups is the most backups that are made at once: each takes as much disk as the store.
const maxBackups = 2

// errNoBackups means that the store cannot make backups.
var errNoBackups = errors.New("store is no kv.Backuper")

// backups makes the backups of a store.
type backups struct {
	store kv.Backuper // nil where the store cannot make any
	slots chan struct{}
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
}

func newBackups(store kv.Backuper) *backups {
	return &backups{store: store, slots: make(chan struct{}, maxBackups), now: time.Now, sleep: sleep}
}

// sleep waits, and returns the error of the context where that is done first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backup implements memoryv1.AdminServiceServer.
func (s *adminService) Backup(
	req *memoryv1.BackupRequest, stream grpc.ServerStreamingServer[memoryv1.BackupResponse],
) error {
	return StatusError(s.backups.send(req, stream))
}

func (b *backups) send(
	req *memoryv1.BackupRequest, stream grpc.ServerStreamingServer[memoryv1.BackupResponse],
) (err error) {
	if req.GetMaxBytesPerSecond() < 0 {
		return invalid("max_bytes_per_second", "max_bytes_per_second must be 0 (no limit) or more")
	}
	if b.store == nil {
		o := outcome{codes.Unimplemented, "BACKUP_UNSUPPORTED", "this store cannot make backups", true}
		return o.because(errNoBackups, map[string]string{})
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		return fmt.Errorf("%d backups are under way: %w", maxBackups, ErrOverloaded)
	}
	backup, err := b.store.Backup(stream.Context())
	if errors.Is(err, kv.ErrFull) {
		o := outcome{
			codes.ResourceExhausted, "STORE_FULL", "no room in the data directory for the copy that a backup needs", true,
		}
		return o.because(err, map[string]string{})
	}
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := backup.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close backup: %w", closeErr)
		}
	}()
	header := &memoryv1.BackupHeader{SizeBytes: backup.Size()}
	if err := stream.Send(&memoryv1.BackupResponse{Part: &memoryv1.BackupResponse_Header{Header: header}}); err != nil {
		return err
	}
	return b.sendChunks(stream, backup, req.GetMaxBytesPerSecond())
}

// sendChunks sends a backup, at most bytesPerSecond where that is not 0.
func (b *backups) sendChunks(
	stream grpc.ServerStreamingServer[memoryv1.BackupResponse], backup io.Reader, bytesPerSecond int64,
) error {
	size := int64(chunkBytes)
	if bytesPerSecond > 0 {
		size = min(size, bytesPerSecond)
	}
	buf := make([]byte, size)
	next := b.now() // When the next chunk may go. A client that was slow does not catch up.
	for {
		n, err := io.ReadFull(backup, buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read backup: %w", err)
		}
		if bytesPerSecond > 0 {
			now := b.now()
			if wait := next.Sub(now); wait > 0 {
				if err := b.sleep(stream.Context(), wait); err != nil {
					return err
				}
			} else {
				next = now
			}
			next = next.Add(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
		}
		part := &memoryv1.BackupResponse_Chunk{Chunk: buf[:n]}
		if err := stream.Send(&memoryv1.BackupResponse{Part: part}); err != nil {
			return err
		}
	}
}
