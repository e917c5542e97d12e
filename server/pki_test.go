package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pem is the certificate of the authority in PEM.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// pool has the authority alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate in PEM, with its key, that ends at a time. A name is that of a client; "" is the server.
func (a *authority) issue(t *testing.T, name string, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if name != "" {
		uri, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{uri}
		template.ExtKeyUsage, template.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// client makes a certificate for a client.
func (a *authority) client(t *testing.T, name string, notAfter time.Time) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(a.issue(t, name, notAfter))
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// inDays is a time after now.
func inDays(days int) time.Time {
	return time.Now().Add(time.Duration(days) * 24 * time.Hour).Truncate(time.Second)
}

// files are those about TLS and identity of a test.
type files struct {
	t   *testing.T
	dir string
}

func newFiles(t *testing.T) *files { return &files{t, t.TempDir()} }

func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

// write replaces a file and returns its path.
func (f *files) write(name string, data []byte) string {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), data, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return f.path(name)
}

// tls returns a configuration with a certificate of an authority.
func (f *files) tls(a *authority) Config {
	f.t.Helper()
	cert, key := a.issue(f.t, "", inDays(30))
	return Config{TLSCert: f.write("cert.pem", cert), TLSKey: f.write("key.pem", key)}
}

// dialTLS connects to the first address of a server.
func dialTLS(t *testing.T, r *running, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(r.Addrs()[0].String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}
