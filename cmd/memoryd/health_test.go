package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthServer is a server with nothing but health. It returns where it listens, and what says how it is.
func healthServer(t *testing.T, network, address string) (addr string, checks *health.Server) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s, checks := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(s, checks)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), checks
}

func TestHealth(t *testing.T) {
	addr, checks := healthServer(t, "tcp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	serving := func(addr string) outcome { return outcome{Stdout: addr + " is SERVING\n"} }
	wantOutcome(t, memoryd(t, nil, "health", "--addr", addr), serving(addr))
	for _, listen := range []string{addr, "0.0.0.0:" + port, ":" + port} {
		wantOutcome(t, memoryd(t, map[string]string{"MEMORYD_LISTEN": listen}, "health"), serving(listen))
	}
	file := writeFile(t, "listen: ["+addr+", 'unix:///nowhere']\n")
	wantOutcome(t, memoryd(t, nil, "health", "--config", file), serving(addr))
	wantOutcome(t, memoryd(t, map[string]string{"MEMORYD_LISTEN": "127.0.0.1:1"}, "health", "--listen", addr), serving(addr))
	// The flags of the service, whichever they are, are those of its probe.
	args := []string{"health"}
	allSettings().VisitAll(func(f *pflag.Flag) {
		if f.Name != keyListen && f.Name != keyConfig && f.Name != keyTLSCert {
			args = append(args, "--"+f.Name+"="+f.DefValue)
		}
	})
	wantOutcome(t, memoryd(t, nil, append(args, "--listen", addr, "--data", "/var/lib/memoryd")...), serving(addr))
	if help := memoryd(t, nil, "health", "--help").Stdout; strings.Contains(help, "--data") || !strings.Contains(help, "--listen") {
		t.Errorf("got this help, want the flags alone that it goes by:\n%s", help)
	}

	checks.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	wantOutcome(t, memoryd(t, nil, "health", "--addr", addr),
		outcome{Status: 1, Stderr: "memoryd: " + addr + " is NOT_SERVING; its log says why\n"})
}

func TestHealth_Socket(t *testing.T) {
	t.Chdir(t.TempDir()) // The path of a socket has to be short.
	healthServer(t, "unix", "s")
	for _, addr := range []string{"unix:s", "unix://" + filepath.Join("/proc/self/cwd", "s")} {
		// Sockets have no TLS, whatever the settings are.
		got := memoryd(t, map[string]string{"MEMORYD_LISTEN": addr, "MEMORYD_TLS_CERT": "server.pem"}, "health")
		wantOutcome(t, got, outcome{Stdout: addr + " is SERVING\n"})
	}
}

func TestHealth_Fails(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // It accepts connections, and says nothing.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, tt := range []struct {
		name string
		vars map[string]string
		args []string
		want outcome
	}{
		{
			name: "nobody is there", args: []string{"--addr", "unix:///nowhere"},
			want: outcome{1, "", `memoryd: unix:///nowhere cannot be asked: connection error: desc = ` +
				`"transport: Error while dialing: dial unix /nowhere: connect: no such file or directory"` + "\n"},
		},
		{
			name: "no answer", args: []string{"--addr", silent.Addr().String(), "--timeout", "1ms"},
			want: outcome{1, "", "memoryd: " + silent.Addr().String() + " gave no answer in time\n"},
		},
		{
			name: "any port", vars: map[string]string{"MEMORYD_LISTEN": "127.0.0.1:0"},
			want: outcome{2, "", `memoryd: address "127.0.0.1:0": the system chose the port when memoryd started; ` +
				"give it with --addr\n"},
		},
		{
			name: "no address", args: []string{"--addr", "localhost"},
			want: outcome{2, "", `memoryd: address "localhost": it must be host:port, unix:///absolute/path or ` +
				"unix:relative/path\n"},
		},
		{
			name: "no listener", args: []string{"--listen", ""},
			want: outcome{2, "", `memoryd: --listen is "" (flag): it must be at least one address` + "\n"},
		},
		{
			name: "no time", args: []string{"--timeout", "0s"},
			want: outcome{2, "", "memoryd: --timeout is 0s: it must be longer than 0s\nRun \"memoryd health --help\" for usage.\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantOutcome(t, memoryd(t, tt.vars, append([]string{"health"}, tt.args...)...), tt.want)
		})
	}
}
