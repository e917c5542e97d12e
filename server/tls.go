package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// The log warns every day of a certificate that expires within a week.
const (
	expiryNotice    = 7 * 24 * time.Hour
	expiryWarnEvery = 24 * time.Hour
)

// serverTLS is the certificate of the server and the authorities of its clients. New ones count for connections from
// then on; those that are open go on.
type serverTLS struct {
	keyFile string
	logger  *slog.Logger
	metrics *ops.Metrics
	now     func() time.Time

	current  atomic.Pointer[tls.Config]
	failures sparse // handshakes

	mu          sync.Mutex
	certificate tls.Certificate
	clientCAs   *x509.CertPool // nil: clients are not asked for certificates
	warned      time.Time      // when the log was told last that the certificate expires; zero is never
}

func newServerTLS(cfg Config, metrics *ops.Metrics) *serverTLS {
	return &serverTLS{
		keyFile: cfg.TLSKey, logger: cfg.Logger, metrics: metrics, now: cfg.now, failures: sparse{now: cfg.now},
	}
}

// loadCertificate takes a certificate and its key, which are only ever replaced together.
func (t *serverTLS) loadCertificate(ctx context.Context, files [][]byte) ([]slog.Attr, error) {
	certificate, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, err
	}
	now := t.now()
	t.mu.Lock()
	// One that nobody takes must not replace one that is good. A server that has no other starts with it all the same:
	// its unix sockets work, and the log says what is wrong.
	if old := t.certificate.Leaf; old != nil && isValid(old, now) && !isValid(certificate.Leaf, now) {
		t.mu.Unlock()
		return nil, fmt.Errorf("the new certificate is valid from %s to %s only, and the one in force is valid now",
			certificate.Leaf.NotBefore.Format(time.RFC3339), certificate.Leaf.NotAfter.Format(time.RFC3339))
	}
	t.certificate, t.warned = certificate, time.Time{}
	t.publish()
	t.mu.Unlock()
	t.metrics.CertificateExpires(certificate.Leaf.NotAfter)
	t.warnExpiry(ctx)
	t.warnReadable(ctx)
	return []slog.Attr{slog.Time("not_after", certificate.Leaf.NotAfter)}, nil
}

func isValid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && !now.After(c.NotAfter)
}

// setClientCAs replaces the authorities of clients.
func (t *serverTLS) setClientCAs(pool *x509.CertPool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clientCAs = pool
	t.publish()
}

// publish makes what there is the configuration of new connections.
func (t *serverTLS) publish() {
	config := t.empty()
	config.Certificates = []tls.Certificate{t.certificate}
	if t.clientCAs != nil {
		// Who shows none may have a token.
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, t.clientCAs
	}
	t.current.Store(config)
}

// empty is a configuration without certificates. There are no session tickets: one would outlive the authority that
// the certificate of its client was checked with, and connections are too few and too long for tickets to be of use.
func (t *serverTLS) empty() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, Time: t.now}
}

// config returns a configuration of a listener that follows what is loaded.
func (t *serverTLS) config(protocols ...string) *tls.Config {
	config := t.empty()
	config.NextProtos = protocols
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := t.current.Load().Clone()
		current.NextProtos = protocols
		return current, nil
	}
	return config
}

// warnExpiry warns of a certificate that expires soon, once a day.
func (t *serverTLS) warnExpiry(ctx context.Context) {
	now := t.now()
	t.mu.Lock()
	notBefore, notAfter := t.certificate.Leaf.NotBefore, t.certificate.Leaf.NotAfter
	early := now.Before(notBefore)
	due := (early || notAfter.Sub(now) < expiryNotice) && (t.warned.IsZero() || now.Sub(t.warned) >= expiryWarnEvery)
	if due {
		t.warned = now
	}
	t.mu.Unlock()
	switch {
	case !due:
	case early:
		t.logger.ErrorContext(ctx, "the TLS certificate is not valid yet: clients refuse to connect", "not_before", notBefore)
	case now.After(notAfter):
		t.logger.ErrorContext(ctx, "the TLS certificate has expired: clients refuse to connect", "not_after", notAfter)
	default:
		t.logger.WarnContext(ctx, "the TLS certificate expires soon", "not_after", notAfter)
	}
}

// warnReadable warns where every user of the machine can read the key.
func (t *serverTLS) warnReadable(ctx context.Context) {
	if runtime.GOOS == "windows" { // It has no such permissions.
		return
	}
	if info, err := os.Stat(t.keyFile); err == nil && info.Mode().Perm()&0o004 != 0 {
		t.logger.WarnContext(ctx, "every user of this machine can read the TLS key; its mode should be 0600",
			"file", t.keyFile, "mode", octal(info.Mode().Perm()))
	}
}

// handshakeFailed counts a handshake that failed, and tells the log of it: at warn where that was not told of others
// lately.
func (t *serverTLS) handshakeFailed(peer net.Addr, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // Those who only try whether the port is open say nothing, and a server that stops closes connections.
	}
	t.metrics.HandshakeFailed()
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String("peer", peer.String()), slog.String("error", handshakeCause(err))}
	if times, due := t.failures.note(); due {
		level, attrs = slog.LevelWarn, append(attrs, slog.Int("times", times))
	}
	t.logger.LogAttrs(context.Background(), level, "TLS handshake failed", attrs...)
}

// maxCauseBytes is the most that the log has of why a handshake failed, which may quote what the client sent.
const maxCauseBytes = 300

func handshakeCause(err error) string {
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxCauseBytes)], "")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// parseAuthorities reads certificates in PEM. It takes all or none.
func parseAuthorities(data []byte) (pool *x509.CertPool, n int, err error) {
	pool = x509.NewCertPool()
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, 0, fmt.Errorf("certificate %d: %w", n, err)
		}
		pool.AddCert(certificate)
	}
	if n == 0 {
		return nil, 0, errors.New("there is no certificate in PEM")
	}
	return pool, n, nil
}

// transportCredentials tell what a connection is, by its address: the socket of another process of this machine, whose
// user the system tells, or TLS where that is on. gRPC bounds how long the handshake may take.
type transportCredentials struct {
	network credentials.TransportCredentials // of all but unix sockets
	tls     *serverTLS                       // of network; nil where TLS is off
}

// newTransportCredentials returns the credentials of all listeners. t is nil where TLS is off.
func newTransportCredentials(t *serverTLS) *transportCredentials {
	network := insecure.NewCredentials()
	if t != nil {
		network = credentials.NewTLS(t.config("h2"))
	}
	return &transportCredentials{network: network, tls: t}
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *transportCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if isSocket(conn) {
		return conn, socketInfo(conn), nil
	}
	secured, info, err := c.network.ServerHandshake(conn)
	if err != nil && c.tls != nil {
		c.tls.handshakeFailed(conn.RemoteAddr(), err)
	}
	return secured, info, err
}

func isSocket(conn net.Conn) bool { return conn.LocalAddr().Network() == "unix" }

// socketInfo tells who is at the other end of a unix socket. Nobody is between.
func socketInfo(conn net.Conn) auth.PeerInfo {
	info := auth.PeerInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	info.UID, info.HasUID = auth.PeerUID(conn)
	return info
}

// ClientHandshake implements credentials.TransportCredentials. It always fails.
func (c *transportCredentials) ClientHandshake(
	context.Context, string, net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are the credentials of a server")
}

// Info implements credentials.TransportCredentials.
func (c *transportCredentials) Info() credentials.ProtocolInfo { return c.network.Info() }

// Clone implements credentials.TransportCredentials.
func (c *transportCredentials) Clone() credentials.TransportCredentials {
	return &transportCredentials{network: c.network.Clone(), tls: c.tls}
}

// OverrideServerName implements credentials.TransportCredentials. A server has no name to override.
func (c *transportCredentials) OverrideServerName(string) error { return nil }
