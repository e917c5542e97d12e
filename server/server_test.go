package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func view(ctx context.Context, r *running) (*memoryv1.ViewResponse, error) {
	return memoryv1.NewMemoryServiceClient(r.conn).View(ctx, &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"})
}

func httpGet(t *testing.T, r *running, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTPAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	socket := socketPath(t)
	cfg := Config{
		Listen: []string{"unix:" + socket, "127.0.0.1:0"}, HTTP: "127.0.0.1:0", Data: data,
		Defaults: memory.Settings{MaxFileBytes: new(int64(5))},
	}
	r := start(t, cfg)
	if got, want := r.Addrs()[0].String(), socket; got != want || len(r.Addrs()) != 2 {
		t.Errorf("got addresses %v, want %s and one of TCP", r.Addrs(), want)
	}
	create := func(text string) *memoryv1.CreateResponse {
		t.Helper()
		resp, err := memoryv1.NewMemoryServiceClient(r.conn).Create(t.Context(), &memoryv1.CreateRequest{
			Namespace: "n", Path: "/memories/f", FileText: text,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if got, want := create("123456").GetResult().GetReason(), memoryv1.Reason_REASON_FILE_TOO_LARGE; got != want {
		t.Errorf("got reason %v, want %v from the defaults of the configuration", got, want)
	}
	create("12345")

	for path, want := range map[string]string{"/healthz": "200 ok\n", "/readyz": "200 ok\n"} {
		if code, body := httpGet(t, r, path); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: got %d %q, want %q", path, code, body, want)
		}
	}
	_, metrics := httpGet(t, r, "/metrics")
	for _, want := range []string{
		`memoryd_commands_total{command="create",reason="file_too_large"} 1`,
		`memoryd_commands_total{command="create",reason="ok"} 1`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Create",grpc_service="memoryd.v1.MemoryService",` +
			`grpc_type="unary"} 2`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}

	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	// What was answered is there after a restart.
	r = start(t, cfg)
	resp, err := view(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(resp.GetEntries()), 1; got != want {
		t.Errorf("got %d entries after a restart, want %d", got, want)
	}
}

func TestServer_Health(t *testing.T) {
	r := start(t, Config{})
	client := healthpb.NewHealthClient(r.conn)
	for _, name := range []string{
		"", "memoryd.v1.MemoryService", "memoryd.v1.FileService", "memoryd.v1.AdminService",
	} {
		resp, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: got %v, %v; want SERVING", name, resp, err)
		}
	}
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "memoryd.v1.None"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown service: got %v, want code %v", err, codes.NotFound)
	}
}

func TestServer_Reflection(t *testing.T) {
	r := start(t, Config{})
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		got = append(got, s.GetName())
	}
	want := []string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"memoryd.v1.AdminService", "memoryd.v1.FileService", "memoryd.v1.MemoryService",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// The stream is left open: a graceful stop does not wait for it.
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestServer_DrainsCallInFlight(t *testing.T) {
	gate := newGate()
	r := start(t, Config{Store: &hookedStore{newStore(t), gate.wait}, HTTP: "127.0.0.1:0"})
	watch, err := healthpb.NewHealthClient(r.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantHealth := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		resp, err := watch.Recv()
		if err != nil || resp.GetStatus() != want {
			t.Fatalf("got %v, %v; want %v", resp, err, want)
		}
	}
	wantHealth(healthpb.HealthCheckResponse_SERVING)
	answered := make(chan error, 1)
	go func() {
		_, err := view(t.Context(), r)
		answered <- err
	}()
	<-gate.entered

	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	wantHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	if code, body := httpGet(t, r, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: got %d %q, want %d", code, body, http.StatusServiceUnavailable)
	}
	if code, body := httpGet(t, r, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: got %d %q, want %d", code, body, http.StatusOK)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want the watch to end with code %v", err, codes.Canceled)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call in flight: %v", err)
	default:
	}
	close(gate.opened)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight was not answered: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestServer_CutsCallsOff(t *testing.T) {
	gate := newGate()
	r := start(t, Config{Store: &hookedStore{newStore(t), gate.wait}, ShutdownTimeout: 20 * time.Millisecond})
	answered := make(chan error, 1)
	go func() {
		_, err := view(t.Context(), r)
		answered <- err
	}()
	<-gate.entered
	err := r.stop()
	if want := "stop: calls that still ran after 20ms were cut off"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := <-answered; err == nil {
		t.Error("got an answer, want an error")
	}
}

func TestServer_Panic(t *testing.T) {
	log := &logBuffer{}
	panics := true
	r := start(t, Config{Logger: log.logger(), Store: &hookedStore{newStore(t), func(context.Context) error {
		if panics {
			panic("stored secret")
		}
		return nil
	}}})
	_, err := view(t.Context(), r)
	wantStatus(t, err, codes.Internal, "INTERNAL")
	if got, want := status.Convert(err).Message(), "internal error"; got != want {
		t.Errorf("the caller is told %q, want %q", got, want)
	}
	panics = false
	if _, err := view(t.Context(), r); err != nil {
		t.Errorf("the server does not live on: %v", err)
	}
	if !strings.Contains(log.String(), "stored secret") || !strings.Contains(log.String(), "goroutine") {
		t.Errorf("the log lacks the panic or its stack:\n%s", log)
	}
}

func TestServer_Limit(t *testing.T) {
	gate := newGate()
	r := start(t, Config{Store: &hookedStore{newStore(t), gate.wait}, MaxConcurrentCalls: 1})
	answered := make(chan error, 1)
	go func() {
		_, err := view(t.Context(), r)
		answered <- err
	}()
	<-gate.entered
	_, err := view(t.Context(), r)
	wantStatus(t, err, codes.ResourceExhausted, "OVERLOADED")
	if _, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health check of an overloaded server: %v", err)
	}
	close(gate.opened)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := view(t.Context(), r); err != nil {
		t.Errorf("after the other call: %v", err)
	}
}

func TestServer_CallTimeout(t *testing.T) {
	gate := newGate()
	r := start(t, Config{Store: &hookedStore{newStore(t), gate.wait}, CallTimeout: 10 * time.Millisecond})
	_, err := view(t.Context(), r)
	wantStatus(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")

	// A client that opens a stream and then sends nothing.
	put, err := memoryv1.NewFileServiceClient(r.conn).Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = put.RecvMsg(&memoryv1.PutResponse{})
	wantStatus(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
}

func TestServer_MessageSizes(t *testing.T) {
	r := start(t, Config{})
	client := memoryv1.NewMemoryServiceClient(r.conn)
	create := func(size int) error {
		_, err := client.Create(t.Context(), &memoryv1.CreateRequest{
			Namespace: "n", Path: "/memories/f", FileText: strings.Repeat("x", size),
		})
		return err
	}
	// A file that is too large is an answer, up to the size of a message.
	if err := create(MaxRequestBytes - 100); err != nil {
		t.Errorf("just below the limit: %v", err)
	}
	if err := create(MaxRequestBytes); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("above the limit: got %v, want code %v", err, codes.ResourceExhausted)
	}
}

func TestNew_AllOrNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	given, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, data := socketPath(t), filepath.Join(t.TempDir(), "data")
	cfg := Config{
		Listen: []string{"unix:" + socket, busy.Addr().String()}, Listeners: []net.Listener{given}, Data: data,
	}
	if s, err := New(t.Context(), cfg); err == nil {
		t.Fatalf("got a server %v on an address in use", s.Addrs())
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := given.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener that was given is still open: %v", err)
	}
	cfg.Listeners = nil
	if err := start(t, cfg).stop(); err != nil { // The store and the addresses are free again.
		t.Error(err)
	}
}

func TestNew_RefusesBeforeItOpens(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	_, err := New(t.Context(), Config{Listen: []string{"0.0.0.0:0"}, Data: data})
	if err == nil || !strings.Contains(err.Error(), "other machines can reach it") {
		t.Errorf("got %v, want a refusal", err)
	}
	_, err = New(t.Context(), Config{Listen: []string{"127.0.0.1:0"}, HTTP: ":0", Data: data})
	if err == nil || !strings.HasPrefix(err.Error(), "HTTP is :0: other machines can reach it") {
		t.Errorf("got %v, want a refusal of the side port", err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

func TestNew_Insecure(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{Listen: []string{"0.0.0.0:0"}, Insecure: true, Logger: log.logger()})
	if _, err := view(t.Context(), r); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `"level":"WARN","msg":"INSECURE:`) {
		t.Errorf("there is no loud warning in\n%s", log)
	}
}

func TestNew_StoreInUse(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	holder := start(t, Config{Listen: []string{"127.0.0.1:0"}, Data: data})
	before := time.Now()
	_, err := New(t.Context(), Config{Listen: []string{holder.Addrs()[0].String()}, Data: data})
	var inUse *boltkv.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("got %v, want a *boltkv.InUseError, also where the address is in use", err)
	}
	if inUse.PID != os.Getpid() || inUse.Address != "127.0.0.1:0" {
		t.Errorf("got holder %d at %q, want %d at what it was told to listen on", inUse.PID, inUse.Address, os.Getpid())
	}
	if took := time.Since(before); took > 2*time.Second {
		t.Errorf("it took %s to say so, want at most 2s", took)
	}
}

func TestServer_StoreStaysTheCallers(t *testing.T) {
	store := newStore(t) // Closing it when the test ends fails where the server closed it.
	if err := start(t, Config{Store: store}).stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Scopes(t.Context(), "", 1); err != nil {
		t.Errorf("the store was closed: %v", err)
	}
}

func TestServer_RunFailsWithItsListener(t *testing.T) {
	for _, side := range []bool{false, true} {
		s, err := New(t.Context(), Config{
			Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, HTTP: "127.0.0.1:0", Store: newStore(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		broken := s.listeners[1]
		if side {
			broken = s.http
		}
		if err := broken.Close(); err != nil {
			t.Fatal(err)
		}
		err = s.Run(t.Context())
		if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "serve on "+broken.Addr().String()) {
			t.Errorf("got %v, want that the listener is closed", err)
		}
	}
}

func TestServer_ContextDoneBeforeRun(t *testing.T) {
	s, err := New(t.Context(), Config{Listen: []string{"127.0.0.1:0"}, HTTP: "127.0.0.1:0", Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	for _, l := range append(s.listeners, s.http) {
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s is still open: %v", l.Addr(), err)
		}
	}
}
