package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestStranger_Read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStranger()
		read := func(bytes int, want time.Duration) {
			t.Helper()
			began := time.Now()
			s.read(bytes)
			if took := time.Since(began); took < want || took > want+time.Millisecond {
				t.Errorf("%d bytes took %s, want %s", bytes, took, want)
			}
		}
		read(strangerBurst, 0)
		read(2*strangerBytes, 2*time.Second)
		read(strangerBurst+strangerBytes, 5*time.Second)
		time.AfterFunc(time.Second, s.release)
		read(1<<30, time.Second)
		read(1<<30, 0)
		s = nil
		read(1<<30, 0)
	})
}

// counting connects to a server and counts the connections.
func counting(t *testing.T, r *running) (*grpc.ClientConn, *atomic.Int64) {
	t.Helper()
	dials := new(atomic.Int64)
	conn, err := grpc.NewClient(r.Addrs()[0].String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			var dialer net.Dialer
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, dials
}

// TestServer_ClosesConnectionsOfStrangers fails calls on connections of nobody else, and on one that others share.
func TestServer_ClosesConnectionsOfStrangers(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{Principals: writePrincipals(t, principalsFile), Logger: log.logger()})
	const line = "closing a connection on which no call had a valid credential"
	fail := func(conn *grpc.ClientConn, times int) {
		t.Helper()
		for i := range times {
			// Every other call is a stream.
			method := memoryv1.MemoryService_View_FullMethodName
			if i%2 == 1 {
				method = memoryv1.FileService_Get_FullMethodName
			}
			wantCode(t, invoke(as(t, "wrong"), t, conn, method, "shared"), codes.Unauthenticated)
		}
	}
	shared, dials := counting(t, r)
	wantCode(t, invoke(as(t, "alice"), t, shared, memoryv1.MemoryService_View_FullMethodName, "shared"), codes.OK)
	fail(shared, 2*maxStrangerCalls)
	if got := dials.Load(); got != 1 || strings.Contains(log.String(), line) {
		t.Errorf("got %d connections, want that the one that others share stays:\n%s", got, log)
	}
	lonely, dials := counting(t, r)
	fail(lonely, maxStrangerCalls)
	if _, err := healthpb.NewHealthClient(lonely).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := dials.Load(); got != 1 {
		t.Errorf("got %d connections for %d failures, want 1", got, maxStrangerCalls)
	}
	_ = invoke(as(t, "wrong"), t, lonely, memoryv1.MemoryService_View_FullMethodName, "shared") // may be cut off
	if _, err := healthpb.NewHealthClient(lonely).Check(t.Context(), &healthpb.HealthCheckRequest{},
		grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if got := dials.Load(); got != 2 || !strings.Contains(log.String(), line) {
		t.Errorf("got %d connections, want 2, and that the log tells of it:\n%s", got, log)
	}
}

// TestServer_StrangersAreNotRead has a stranger begin a request of 16 MiB, and never go on.
func TestServer_StrangersAreNotRead(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{
		Principals: writePrincipals(t, principalsFile), Logger: log.logger(), CallTimeout: 10 * time.Second,
	})
	if got, want := <-halfRequest(t, r), fmt.Sprint(int(codes.Unauthenticated)); got != want {
		t.Errorf("got status %s, want %s", got, want)
	}
	const method = memoryv1.MemoryService_Create_FullMethodName
	if !counted(t, r.Server, method, codes.Unauthenticated) || !logged(log, method, codes.Unauthenticated) {
		t.Errorf("the refusal is not counted or not logged:\n%s", log)
	}
	if !strings.Contains(log.String(), `"error":"no credential"`) {
		t.Errorf("the log does not say why:\n%s", log)
	}
	if want := "\nmemoryd_authentication_failures_total 1\n"; !strings.Contains(metricsOf(t, r.metrics), want) {
		t.Errorf("the metrics lack %q", want)
	}
}
