package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caller is what a service knows of who calls it.
type caller struct {
	Token       string // the authorization
	TLS         bool
	Certificate string // the name in it
}

// serve serves views, over TLS unless config is nil, and returns its target and what it knows of its callers.
func serve(t *testing.T, config *tls.Config) (target string, callers <-chan caller) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan caller, 1)
	opts := []grpc.ServerOption{grpc.UnaryInterceptor(
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			var c caller
			md, _ := metadata.FromIncomingContext(ctx)
			c.Token = strings.Join(md.Get("authorization"), ",")
			p, _ := peer.FromContext(ctx)
			var info credentials.TLSInfo
			if info, c.TLS = p.AuthInfo.(credentials.TLSInfo); c.TLS && len(info.State.PeerCertificates) > 0 {
				c.Certificate = info.State.PeerCertificates[0].Subject.CommonName
			}
			seen <- c
			return &memoryv1.ViewResponse{}, nil
		},
	)}
	if config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	s := grpc.NewServer(opts...)
	memoryv1.RegisterMemoryServiceServer(s, memoryv1.UnimplementedMemoryServiceServer{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "unix:" + l.Addr().String(), seen
}

// authority is a certificate authority, with the file of its certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	a.cert, a.key = a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.file = writeFile(t, "CERTIFICATE", a.cert.Raw)
	return a
}

// sign makes a key and a certificate for it, which a new authority signs itself.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// issue makes a certificate, valid for so long from now on, for a host or client; without a host it names none.
func (a *authority) issue(t *testing.T, name string, valid time.Duration, hosts ...string) tls.Certificate {
	t.Helper()
	cert, key := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature,
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// certFiles writes a certificate and its key.
func certFiles(t *testing.T, cert tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "CERTIFICATE", cert.Certificate[0]), writeFile(t, "PRIVATE KEY", key)
}

// writeFile writes a file in PEM form, or as it is where kind is empty.
func writeFile(t *testing.T, kind string, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if kind != "" {
		content = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
