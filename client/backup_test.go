package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// backupService is a service that sends a backup.
type backupService struct {
	memoryv1.UnimplementedAdminServiceServer
	size   int64 // as the header says; negative sends no header
	chunks [][]byte
	err    error // after the chunks
	req    *memoryv1.BackupRequest
}

func (s *backupService) Backup(
	req *memoryv1.BackupRequest, stream grpc.ServerStreamingServer[memoryv1.BackupResponse],
) error {
	s.req = req
	if s.size >= 0 {
		header := &memoryv1.BackupResponse_Header{Header: &memoryv1.BackupHeader{SizeBytes: s.size}}
		if err := stream.Send(&memoryv1.BackupResponse{Part: header}); err != nil {
			return err
		}
	}
	for _, chunk := range s.chunks {
		part := &memoryv1.BackupResponse_Chunk{Chunk: chunk}
		if err := stream.Send(&memoryv1.BackupResponse{Part: part}); err != nil {
			return err
		}
	}
	return s.err
}

// startBackup serves s and returns a client of it.
func startBackup(t *testing.T, s *backupService) *Client {
	t.Helper()
	l := listen(t, "tcp", "127.0.0.1:0")
	server := grpc.NewServer()
	memoryv1.RegisterAdminServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dial(t, l.Addr().String())
}

// sealed is a content with its SHA-256.
func sealed(content string) []byte {
	sum := sha256.Sum256([]byte(content))
	return append([]byte(content), sum[:]...)
}

func TestBackup(t *testing.T) {
	whole := sealed("the store")
	for name, chunks := range map[string][][]byte{
		"one chunk":               {whole},
		"the seal is cut":         {whole[:20], whole[20:30], whole[30:]},
		"the content is cut":      {whole[:3], whole[3:]},
		"the seal is a chunk":     {whole[:9], whole[9:]},
		"a chunk that is empty":   {whole[:9], nil, whole[9:]},
		"every byte has its own":  bytes.SplitAfter(whole, nil),
		"nothing but a seal is 0": {sealed("")},
	} {
		t.Run(name, func(t *testing.T) {
			want := bytes.Join(chunks, nil)
			s := &backupService{size: int64(len(want)), chunks: chunks}
			var got bytes.Buffer
			var done []int64
			err := startBackup(t, s).Backup(t.Context(), &memoryv1.BackupRequest{MaxBytesPerSecond: 5}, &got,
				func(d, total int64) {
					if total != s.size {
						t.Errorf("progress of %d bytes, want %d", total, s.size)
					}
					done = append(done, d)
				})
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %q, %v, want %q", got.Bytes(), err, want)
			}
			if done[0] != 0 || done[len(done)-1] != s.size || len(done) != len(chunks)+1 {
				t.Errorf("got progress %v, want it from 0 to %d", done, s.size)
			}
			if got, want := s.req.GetMaxBytesPerSecond(), int64(5); got != want {
				t.Errorf("asked for %d bytes a second, want %d", got, want)
			}
		})
	}
}

func TestBackup_Fails(t *testing.T) {
	whole := sealed("the store")
	size := int64(len(whole))
	changed := bytes.Clone(whole)
	changed[0] ^= 1
	for _, tt := range []struct {
		name    string
		service *backupService
		code    codes.Code // Unknown: the error is ErrBackupDamaged
	}{
		{"cut off", &backupService{size: size, chunks: [][]byte{whole[:40]}}, codes.Unknown},
		{"cut off, shorter than a seal", &backupService{size: size, chunks: [][]byte{whole[:4]}}, codes.Unknown},
		{"nothing after the header", &backupService{size: size}, codes.Unknown},
		{"changed", &backupService{size: size, chunks: [][]byte{changed}}, codes.Unknown},
		{"too long", &backupService{size: size, chunks: [][]byte{whole, {1}}}, codes.Unknown},
		{"size of nothing", &backupService{size: 0}, codes.Unknown},
		{"no header", &backupService{size: -1, chunks: [][]byte{whole}}, codes.Internal},
		{"nothing", &backupService{size: -1}, codes.Internal},
		{
			"error at the end",
			&backupService{size: size, chunks: [][]byte{whole}, err: status.Error(codes.DataLoss, "x")},
			codes.DataLoss,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			err := startBackup(t, tt.service).Backup(t.Context(), &memoryv1.BackupRequest{}, &got, nil)
			if status.Code(err) != tt.code || errors.Is(err, ErrBackupDamaged) != (tt.code == codes.Unknown) {
				t.Errorf("got error %v, want code %v", err, tt.code)
			}
		})
	}
}

func TestBackup_WriterFails(t *testing.T) {
	whole := sealed("the store")
	errFull := errors.New("disk full")
	c := startBackup(t, &backupService{size: int64(len(whole)), chunks: [][]byte{whole}})
	err := c.Backup(t.Context(), &memoryv1.BackupRequest{}, failingWriter{errFull}, nil)
	if !errors.Is(err, errFull) {
		t.Errorf("got error %v, want %v", err, errFull)
	}
}

func TestBackup_NoService(t *testing.T) {
	err := dead(t).Backup(t.Context(), &memoryv1.BackupRequest{}, &bytes.Buffer{}, nil)
	if !IsUnreachable(err) {
		t.Errorf("got error %v, want that the service cannot be reached", err)
	}
}
