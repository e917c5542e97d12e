package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// fakeBackups makes backups with a content, or fails.
type fakeBackups struct {
	content []byte
	err     error
	open    int // that were not closed
}

func (f *fakeBackups) Backup(context.Context) (kv.Backup, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.open++
	return &fakeBackup{Reader: bytes.NewReader(f.content), closed: func() { f.open-- }}, nil
}

type fakeBackup struct {
	*bytes.Reader
	closed func()
}

func (b *fakeBackup) Close() error {
	b.closed()
	return nil
}

// backupStream collects what is sent.
type backupStream struct {
	grpc.ServerStream
	ctx  context.Context
	size int64
	data []byte
	most int // bytes of a chunk
	sent func() error
}

func (s *backupStream) Context() context.Context { return s.ctx }

func (s *backupStream) Send(resp *memoryv1.BackupResponse) error {
	if header := resp.GetHeader(); header != nil {
		s.size = header.GetSizeBytes()
		return nil
	}
	s.data = append(s.data, resp.GetChunk()...)
	s.most = max(s.most, len(resp.GetChunk()))
	if s.sent != nil {
		return s.sent()
	}
	return nil
}

// fakeTime is a clock that goes on while somebody sleeps, and only then.
type fakeTime struct {
	now   time.Time
	slept time.Duration
}

func (f *fakeTime) sleep(ctx context.Context, d time.Duration) error {
	f.now = f.now.Add(d)
	f.slept += d
	return ctx.Err()
}

func newTestBackups(store kv.Backuper) (*backups, *fakeTime) {
	clock := &fakeTime{now: now}
	b := newBackups(store)
	b.now, b.sleep = func() time.Time { return clock.now }, clock.sleep
	return b, clock
}

func TestBackup(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 320,000 bytes
	for _, tt := range []struct {
		name  string
		rate  int64
		slept time.Duration
		most  int // bytes of a chunk
	}{
		{"no limit", 0, 0, chunkBytes},
		{"limit", 160_000, 1_638_400 * time.Microsecond, chunkBytes}, // What the last chunk takes is not waited for.
		{"slow", 10_000, 31 * time.Second, 10_000},
		{"faster than can be measured", 1 << 62, 0, chunkBytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &fakeBackups{content: content}
			b, clock := newTestBackups(store)
			stream := &backupStream{ctx: t.Context()}
			if err := b.send(&memoryv1.BackupRequest{MaxBytesPerSecond: tt.rate}, stream); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(stream.data, content) || stream.size != int64(len(content)) {
				t.Errorf("got %d bytes of %d, want the %d of the backup", len(stream.data), stream.size, len(content))
			}
			if clock.slept != tt.slept {
				t.Errorf("slept %s, want %s", clock.slept, tt.slept)
			}
			if stream.most != tt.most {
				t.Errorf("got chunks of %d bytes, want %d", stream.most, tt.most)
			}
			if store.open != 0 {
				t.Error("the backup was not closed")
			}
		})
	}
}

// A client that was slow for a while gets no more a second than before.
func TestBackup_NoCatchingUp(t *testing.T) {
	b, clock := newTestBackups(&fakeBackups{content: make([]byte, 40_000)})
	var gaps []time.Duration
	last, chunks := clock.now, 0
	stream := &backupStream{ctx: t.Context()}
	stream.sent = func() error {
		gaps = append(gaps, clock.now.Sub(last))
		last = clock.now
		if chunks++; chunks == 2 {
			clock.now = clock.now.Add(time.Minute)
			last = clock.now
		}
		return nil
	}
	if err := b.send(&memoryv1.BackupRequest{MaxBytesPerSecond: 10_000}, stream); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{0, time.Second, 0, time.Second}
	if diff := cmp.Diff(want, gaps); diff != "" {
		t.Errorf("time before each chunk (-want +got):\n%s", diff)
	}
}

func TestBackup_Fails(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	errSend := status.Error(codes.Unavailable, "gone")
	for _, tt := range []struct {
		name   string
		store  kv.Backuper
		req    *memoryv1.BackupRequest
		ctx    context.Context
		sent   error
		code   codes.Code
		reason string
	}{
		{"no backups", nil, nil, t.Context(), nil, codes.Unimplemented, "BACKUP_UNSUPPORTED"},
		{
			"rate", &fakeBackups{}, &memoryv1.BackupRequest{MaxBytesPerSecond: -1}, t.Context(), nil,
			codes.InvalidArgument, "INVALID_REQUEST",
		},
		{"full disk", &fakeBackups{err: kv.ErrFull}, nil, t.Context(), nil, codes.ResourceExhausted, "STORE_FULL"},
		{"disk error", &fakeBackups{err: io.ErrClosedPipe}, nil, t.Context(), nil, codes.Internal, "INTERNAL"},
		{"client gone", &fakeBackups{content: []byte("x")}, nil, t.Context(), errSend, codes.Unavailable, ""},
		{
			"cancelled while it waits", &fakeBackups{content: []byte("xyz")},
			&memoryv1.BackupRequest{MaxBytesPerSecond: 1}, cancelled, nil, codes.Canceled, "CANCELLED",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := newTestBackups(tt.store)
			stream := &backupStream{ctx: tt.ctx, sent: func() error { return tt.sent }}
			err := (&adminService{backups: b}).Backup(tt.req, stream)
			if got := toldOf(t, err); status.Code(err) != tt.code || got.Reason != tt.reason {
				t.Errorf("got %v with reason %q, want code %v and reason %q", err, got.Reason, tt.code, tt.reason)
			}
			if store, ok := tt.store.(*fakeBackups); ok && store.open != 0 {
				t.Error("the backup was not closed")
			}
			if len(b.slots) != 0 {
				t.Error("the backup still counts as one that is under way")
			}
		})
	}
}

func TestBackup_AtOnce(t *testing.T) {
	b, _ := newTestBackups(&fakeBackups{content: []byte("x")})
	var nested []error
	stream := &backupStream{ctx: t.Context()}
	stream.sent = func() error { // While the first is under way, and in it the second.
		if len(nested) < maxBackups {
			nested = append(nested, nil)
			i := len(nested) - 1
			nested[i] = b.send(&memoryv1.BackupRequest{}, stream)
		}
		return nil
	}
	if err := b.send(&memoryv1.BackupRequest{}, stream); err != nil {
		t.Errorf("the first: %v", err)
	}
	if nested[0] != nil {
		t.Errorf("the second: %v", nested[0])
	}
	if got := nested[1]; !errors.Is(got, ErrOverloaded) {
		t.Errorf("the third: got %v, want %v", got, ErrOverloaded)
	}
}
