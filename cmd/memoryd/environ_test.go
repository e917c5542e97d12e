package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnknownVariables(t *testing.T) {
	const ours = "none" // or of somebody else
	for variable, want := range map[string]string{
		"MEMORYD_PRINCIPALS=p":   ours,
		"MEMORYD_CONFIG=c":       ours,
		"PRINCIPAL=p":            ours,
		"memoryd_principal=p":    ours,
		"MEMORYCTL_TOKEN=secret": ours,
		// A service named memoryd has these in Kubernetes.
		"MEMORYD_SERVICE_HOST=10.0.0.1":       ours,
		"MEMORYD_SERVICE_PORT=7711":           ours,
		"MEMORYD_SERVICE_PORT_GRPC=7711":      ours,
		"MEMORYD_PORT=tcp://10.0.0.1:7711":    ours,
		"MEMORYD_PORT_7711_TCP_ADDR=10.0.0.1": ours,

		"MEMORYD_PRINCIPAL=p":              "MEMORYD_PRINCIPALS",
		"MEMORYD_LOGLEVEL=":                "MEMORYD_LOG_LEVEL",
		"MEMORYD_TSL_CERT=c=d":             "MEMORYD_TLS_CERT",
		"MEMORYD_HTTPS=x":                  "MEMORYD_HTTP",
		"MEMORYD_ENCRYPTION_KEYSET_FILE=x": "MEMORYD_ENCRYPTION_KEYSET",
		"MEMORYD_PORTS=x":                  "",
		"MEMORYD_SERVICE_HOSTS=x":          "",
		"MEMORYD_TOKEN=secret":             "",
		"MEMORYD_=x":                       "",
	} {
		t.Run(variable, func(t *testing.T) {
			name, _, _ := strings.Cut(variable, "=")
			got := unknownVariables(func() []string { return []string{"A=b", variable, "MEMORYD_DATA=d"} })
			var wanted []unknownVariable
			if want != ours {
				wanted = []unknownVariable{{name, want}}
			}
			if diff := cmp.Diff(wanted, got, cmp.AllowUnexported(unknownVariable{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSlips(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"abc", "abc", 0},
		{"abc", "axc", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"kitten", "sitting", 3},
		{"ab", "ba", 2},
		{"abcdef", "xyz", 6},
	} {
		if got := slips(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

var slipped = map[string]string{"MEMORYD_PRINCIPAL": "s3cret", "MEMORYD_TOKEN": "s3cret", "MEMORYD_PORT": "s3cret"}

func TestConfig_UnknownVariables(t *testing.T) {
	got := memoryd(t, slipped, "config")
	if !strings.HasPrefix(got.Stdout, "listen ") || strings.Contains(got.Stdout, "s3cret") {
		t.Errorf("got %q, want the settings alone", got.Stdout)
	}
	got.Stdout = ""
	wantOutcome(t, got, outcome{Stderr: `memoryd: MEMORYD_PRINCIPAL belongs to no setting and has no effect; did you mean MEMORYD_PRINCIPALS?
memoryd: MEMORYD_TOKEN belongs to no setting and has no effect
`})
	// Other commands take few settings, and are run where a service is set up.
	wantOutcome(t, memoryd(t, slipped, "check", "--data=none"), outcome{
		Status: 1, Stderr: "memoryd: check none: open store: stat none/memoryd.db: no such file or directory\n",
	})
}

// TestServe_UnknownVariables warns also where the service cannot start, for which the slip may be the reason.
func TestServe_UnknownVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	got := memoryd(t, slipped, "--listen=0.0.0.0:0", "--log-format=json")
	lines := strings.SplitAfter(got.Stderr, "\n")
	for i, want := range []string{
		`"level":"WARN","msg":"environment variable belongs to no setting and has no effect","variable":"MEMORYD_PRINCIPAL","nearest":"MEMORYD_PRINCIPALS"}`,
		`"level":"WARN","msg":"environment variable belongs to no setting and has no effect","variable":"MEMORYD_TOKEN"}`,
		"memoryd: --listen is 0.0.0.0:0 (flag): other machines can reach it",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d: want %s", i+1, want)
		}
	}
	if got.Status != exitUsage || len(lines) != 4 || strings.Contains(got.Stderr, "s3cret") {
		t.Errorf("got %+v, want three lines", got)
	}

	var stdout bytes.Buffer
	log := &logWatcher{want: "msg=serving", seen: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan int, 1)
	go func() {
		args := []string{"--listen=unix:m.sock", "--http=", "--data=data"}
		done <- run(ctx, args, environment(slipped), variables(slipped), &stdout, log)
	}()
	select {
	case <-log.seen:
	case <-ctx.Done():
	}
	cancel()
	if status := <-done; status != exitOK {
		t.Errorf("got status %d, want %d", status, exitOK)
	}
	if n := strings.Count(log.String(), "level=WARN msg=\"environment variable"); n != 2 || strings.Contains(log.String(), "s3cret") {
		t.Errorf("got %d warnings, want 2:\n%s", n, log)
	}
	if _, err := os.Stat(filepath.Join("data", "memoryd.db")); err != nil {
		t.Errorf("the service did not start: %v", errors.Join(err, ctx.Err()))
	}
}
