package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
)

// writeCertificates writes what a service with TLS needs to a directory: ca.pem, server.pem and server.key for
// 127.0.0.1, and client.pem and client.key of spiffe://acme/billing.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) {
		must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return key
	}
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}

	authority, authorityKey := template(1), newKey()
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	must(err)
	write("ca.pem", "CERTIFICATE", der)
	issue := func(name string, leaf *x509.Certificate) {
		key := newKey()
		der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
		must(err)
		write(name+".pem", "CERTIFICATE", der)
		der, err = x509.MarshalPKCS8PrivateKey(key)
		must(err)
		write(name+".key", "PRIVATE KEY", der)
	}
	server := template(2)
	server.IPAddresses, server.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	issue("server", server)
	client := template(3)
	client.URIs, client.ExtKeyUsage = []*url.URL{{Scheme: "spiffe", Host: "acme", Path: "/billing"}},
		[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	issue("client", client)
}
