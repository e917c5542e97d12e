package ops

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestProfiles(t *testing.T) {
	authenticate := func(r *http.Request) (context.Context, error) {
		if who := r.URL.Query().Get("who"); who == "" {
			return nil, errors.New("nobody")
		}
		return r.Context(), nil
	}
	may := func(r *http.Request) bool { return r.URL.Query().Get("who") == "admin" }
	tests := []struct {
		name string
		opts Options
		path string
		code int
		body string // part of it
	}{
		{"off", Options{}, "/debug/pprof/", http.StatusNotFound, "404 page not found"},
		{"index", Options{MayProfile: may}, "/debug/pprof/?who=admin", http.StatusOK, "full goroutine stack dump"},
		{"goroutines", Options{MayProfile: may}, "/debug/pprof/goroutine?debug=1&who=admin", http.StatusOK, "goroutine profile: total"},
		{"no command line", Options{MayProfile: may}, "/debug/pprof/cmdline?who=admin", http.StatusNotFound, "Unknown profile"},
		{"nobody", Options{MayProfile: may, Authenticate: authenticate}, "/debug/pprof/heap", http.StatusUnauthorized, "no valid credential"},
		{
			"no right",
			Options{MayProfile: may, Authenticate: authenticate},
			"/debug/pprof/heap?who=user", http.StatusForbidden,
			"profiles need the right admin in all namespaces",
		},
		{"right", Options{MayProfile: may, Authenticate: authenticate}, "/debug/pprof/heap?debug=1&who=admin", http.StatusOK, "heap profile"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Metrics = NewMetrics("")
			code, body := get(t, newHandler(tt.opts), tt.path)
			if code != tt.code || !strings.Contains(body, tt.body) {
				t.Errorf("got %d %.200q, want %d with %q", code, body, tt.code, tt.body)
			}
		})
	}
}

// TestProfiles_OutlastWriteTimeout takes a profile for longer than any other answer of the side port may take.
func TestProfiles_OutlastWriteTimeout(t *testing.T) {
	s := NewServer(Options{
		Metrics: NewMetrics(""), MayProfile: func(*http.Request) bool { return true }, Logger: slog.New(slog.DiscardHandler),
	})
	s.WriteTimeout = 100 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is a test.
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/debug/pprof/trace?seconds=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "go 1.") {
		t.Errorf("got %s, %d bytes, %v, want a trace", resp.Status, len(body), err)
	}
}
