package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/server"
)

// healthTimeout is how long the service may take to answer where --timeout does not say.
const healthTimeout = 5 * time.Second

func newHealthCommand(lookupEnv lookupEnv) *cobra.Command {
	var (
		addr    string
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running memoryd whether it serves",
		Long: `Health asks the gRPC health service of a memoryd that runs on this machine, as a probe of a container or a unit
does. The exit status is 0 where it answers SERVING, and 1 where it answers anything else or nothing.

Given the flags, environment and file of the service, it finds the service by itself: it asks the first address of
--listen, and speaks TLS where --tls-cert is set. The other flags of the service may be given too, and change nothing.
--addr names another address. No credential is needed, and the
certificate is not verified: nothing secret is sent, and names in certificates are seldom those of loopback addresses.`,
		Example: `  memoryd health
  memoryd health --config /etc/memoryd/memoryd.yaml
  memoryd health --addr unix:///run/memoryd/memoryd.sock`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadSettings(cmd.Flags(), lookupEnv)
			if err != nil {
				return err
			}
			if timeout <= 0 {
				return &usageError{fmt.Errorf("--timeout is %s: it must be longer than 0s", timeout)}
			}
			if !cmd.Flags().Changed("addr") {
				if addr, err = s.firstAddress(); err != nil {
					return err
				}
			}
			target, err := healthTarget(addr)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := askHealth(ctx, target, s.values.String(keyTLSCert) != ""); err != nil {
				return fmt.Errorf("%s %w", addr, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is SERVING\n", addr)
			return err
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "", "`address` to ask, host:port or unix:///path; empty is that of the settings")
	cmd.Flags().DurationVar(&timeout, "timeout", healthTimeout, "how long the service may take to answer")
	addSettings(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = !slices.Contains([]string{"addr", "timeout", keyListen, keyTLSCert, keyConfig}, f.Name)
	})
	return cmd
}

// firstAddress is the first of the addresses that the service listens on with these settings.
func (s *settings) firstAddress() (string, error) {
	listen := s.values.Strings(keyListen)
	if len(listen) == 0 {
		return "", s.invalid(keyListen, "it must be at least one address")
	}
	return listen[0], nil
}

// healthTarget is an address of a service as gRPC dials it. One that means every interface is dialled on loopback.
func healthTarget(addr string) (string, error) {
	var invalid *server.ConfigError
	if err := (server.Config{Listen: []string{addr}}).Validate(); errors.As(err, &invalid) {
		return "", settingErrorf("address %q: %s", addr, invalid.Want)
	} else if err != nil {
		return "", err
	}
	if strings.HasPrefix(addr, "unix:") {
		return addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if strings.Trim(port, "0") == "" {
		return "", settingErrorf("address %q: the system chose the port when memoryd started; give it with --addr", addr)
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6zero):
		host = "::1"
	}
	return "passthrough:///" + net.JoinHostPort(host, port), nil
}

// askHealth returns nil where the service at a target serves. secure is TLS, which unix sockets never have.
func askHealth(ctx context.Context, target string, secure bool) error {
	transport := insecure.NewCredentials()
	if secure && !strings.HasPrefix(target, "unix:") {
		transport = credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // The help text of the command says why.
		})
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("cannot be dialled: %w", err)
	}
	defer func() { _ = conn.Close() }() // Nothing is under way any more.
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return errors.New("gave no answer in time")
	case err != nil:
		return fmt.Errorf("cannot be asked: %s", status.Convert(err).Message())
	case resp.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return fmt.Errorf("is %s; its log says why", resp.GetStatus())
	}
	return nil
}
