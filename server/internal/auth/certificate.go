package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc/credentials"
)

// maxVerified is how many certificates are remembered as verified; about 100 bytes each.
const maxVerified = 4096

// clientCAs are the issuers of the certificates of clients that are in force, and what they vouched for. TLS verifies
// a certificate once, when a connection begins; but a connection lives for long, so every call asks again. Calls with a
// certificate that is remembered cost a hash of it.
type clientCAs struct {
	pool     *x509.CertPool // nil: certificates are not accepted
	verified *lru.Cache[[sha256.Size]byte, validity]
}

// validity is when all certificates of a chain are valid.
type validity struct{ from, until time.Time }

func newClientCAs(pool *x509.CertPool) *clientCAs {
	return &clientCAs{pool: pool, verified: newCache[[sha256.Size]byte, validity](maxVerified)}
}

// tlsState returns the state of TLS of a connection, nil where there is none.
func tlsState(info credentials.AuthInfo) *tls.ConnectionState {
	if info, ok := info.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}

// name returns the name in the certificate of a client, which comes first, if an issuer vouches for it now.
func (c *clientCAs) name(certificates []*x509.Certificate, now time.Time) (string, error) {
	leaf := certificates[0]
	key := sha256.Sum256(leaf.Raw)
	if v, ok := c.verified.Get(key); !ok || !v.holds(now) {
		v, err := c.verify(leaf, certificates[1:], now)
		if err != nil {
			return "", err
		}
		c.verified.Add(key, v)
	}
	return certificateName(leaf)
}

func (c *clientCAs) verify(leaf *x509.Certificate, others []*x509.Certificate, now time.Time) (validity, error) {
	opts := x509.VerifyOptions{
		Roots:         c.pool,
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, other := range others {
		opts.Intermediates.AddCert(other)
	}
	chains, err := leaf.Verify(opts)
	if err != nil {
		return validity{}, fmt.Errorf("client certificate: %w", certificateCause(err))
	}
	var longest validity
	for _, chain := range chains {
		if v := validityOf(chain); v.until.After(longest.until) {
			longest = v
		}
	}
	return longest, nil
}

// certificateCause leaves out what a certificate says: it is the caller's text.
func certificateCause(err error) error {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("expired or not yet valid")
	case errors.As(err, &x509.UnknownAuthorityError{}):
		return errors.New("not issued by a CA that is trusted here")
	default:
		return errors.New("not valid for a client")
	}
}

func validityOf(chain []*x509.Certificate) validity {
	v := validity{chain[0].NotBefore, chain[0].NotAfter}
	for _, c := range chain[1:] {
		if c.NotBefore.After(v.from) {
			v.from = c.NotBefore
		}
		if c.NotAfter.Before(v.until) {
			v.until = c.NotAfter
		}
	}
	return v
}

func (v validity) holds(now time.Time) bool { return !now.Before(v.from) && !now.After(v.until) }

// certificateName returns the first URI in a certificate, else the first DNS name, else the common name. Only a URI may
// look like one: who may choose a common name must not become a workload by it.
func certificateName(c *x509.Certificate) (string, error) {
	var name string
	switch {
	case len(c.URIs) > 0:
		return c.URIs[0].String(), nil
	case len(c.DNSNames) > 0:
		name = c.DNSNames[0]
	default:
		name = c.Subject.CommonName
	}
	if name == "" || strings.Contains(name, "://") {
		return "", errors.New("client certificate: no name")
	}
	return name, nil
}
