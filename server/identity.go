package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// JWT says which JSON Web Tokens callers may show. The zero value is none.
type JWT struct {
	// JWKS is where the keys of the issuer are: a file, or a URL with https. One with http may only lead to this host.
	JWKS string
	// Issuer and Audience are what the claims iss and aud must say. With JWKS both are needed.
	Issuer, Audience string
	// Algorithms are the signatures that are taken, such as RS256. Empty is all that use a pair of keys; there are no
	// others.
	Algorithms []string
	// Leeway is how much the clocks of issuer and server may differ, at most 5 minutes. 0 is DefaultJWTLeeway.
	Leeway time.Duration
}

// maxSocketMode are all permissions that a socket can have.
const maxSocketMode = fs.FileMode(0o777)

// validateSecurity checks what has to do with TLS and identity, and looks into no file.
func (c Config) validateSecurity() error {
	const noFile = ""
	switch {
	case c.SocketMode&^maxSocketMode != 0:
		return &ConfigError{"SocketMode", octal(c.SocketMode), "it must be permissions in octal, such as 0600 or 0660"}
	case c.SocketMode&0o007 != 0 && c.Principals == "" && !c.Insecure:
		return &ConfigError{
			"SocketMode", octal(c.SocketMode), "every user of this machine could connect and nobody is authenticated; " +
				"use 0600 or 0660, give --principals, or allow it with --insecure",
		}
	case c.TLSCert != "" && c.TLSKey == "":
		return &ConfigError{"TLSKey", noFile, "it must be the file with the key, since there is a certificate"}
	case c.TLSKey != "" && c.TLSCert == "":
		return &ConfigError{"TLSCert", noFile, "it must be the file with the certificate, since there is a key"}
	case c.TLSClientCA != "" && c.TLSCert == "":
		return &ConfigError{
			"TLSCert", noFile, "it must be the file with the certificate, since those of clients are to be checked",
		}
	case c.TLSClientCA != "" && c.Principals == "":
		return &ConfigError{
			"Principals", noFile, "it must be a file that says what clients with certificates may do, since there are " +
				"authorities for them",
		}
	}
	return c.validateJWT()
}

func (c Config) validateJWT() error {
	j := c.JWT
	if j.Leeway < 0 || j.Leeway > auth.MaxLeeway {
		return &ConfigError{"JWT.Leeway", j.Leeway, fmt.Sprintf("it must be 0s to %s", auth.MaxLeeway)}
	}
	if j.JWKS == "" && j.Issuer == "" && j.Audience == "" && len(j.Algorithms) == 0 {
		return nil
	}
	for _, algorithm := range j.Algorithms {
		if all := auth.DefaultAlgorithms(); !slices.Contains(all, algorithm) {
			return &ConfigError{"JWT.Algorithms", algorithm, "it must be of " + strings.Join(all, ", ")}
		}
	}
	const missing = ", since there are other settings of JWTs"
	switch {
	case j.JWKS == "":
		return &ConfigError{"JWT.JWKS", "", "it must be the file or URL with the keys of the issuer" + missing}
	case j.Issuer == "":
		return &ConfigError{"JWT.Issuer", "", "it must be the issuer of tokens" + missing}
	case j.Audience == "":
		return &ConfigError{"JWT.Audience", "", "it must be whom tokens are for" + missing}
	case c.Principals == "":
		return &ConfigError{
			"Principals", "", "it must be a file that says what the subjects of JWTs may do, since there are keys for them",
		}
	}
	return nil
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%#o", mode) }

// security is what decides who may connect, and who calls. It is made of files, and follows them.
type security struct {
	cfg     Config
	auth    *auth.Authenticator // nil where identity is off
	jwt     *auth.JWTVerifier   // nil where no JWT is taken
	tls     *serverTLS          // nil where TLS is off
	reloads *reloader
}

// openSecurity reads the files about TLS and identity that cfg names. Its errors about them are *ConfigErrors.
func openSecurity(ctx context.Context, cfg Config, metrics *ops.Metrics) (_ *security, err error) {
	s := &security{cfg: cfg, reloads: newReloader(cfg.Logger, metrics, cfg.now)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if cfg.Principals != "" {
		if err := s.openIdentity(ctx); err != nil {
			return nil, err
		}
	}
	if cfg.TLSCert != "" {
		if err := s.openTLS(ctx, metrics); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close ends what runs in the background.
func (s *security) close() {
	if s.jwt != nil {
		s.jwt.Close()
	}
}

func (s *security) openIdentity(ctx context.Context) (err error) {
	if j := s.cfg.JWT; j.JWKS != "" {
		var files []string
		if !isURL(j.JWKS) { // A URL is followed by the verifier, and only fetched at once when the server is told to.
			files = append(files, j.JWKS)
		}
		s.reloads.watch(reloadable{"jwks", files, s.loadJWKS})
		s.jwt, err = auth.NewJWTVerifier(ctx, auth.JWTOptions{
			JWKS: j.JWKS, Issuer: j.Issuer, Audience: j.Audience, Algorithms: j.Algorithms, Leeway: j.Leeway,
			Logger: s.cfg.Logger, Now: s.cfg.now,
		})
		if err != nil {
			return &ConfigError{"JWT.JWKS", j.JWKS, "JWTs cannot be checked with it: " + err.Error()}
		}
	}
	s.auth = auth.New(auth.Options{JWT: s.jwt, Now: s.cfg.now, Logger: s.cfg.Logger})
	principals := reloadable{"principals", []string{s.cfg.Principals}, s.loadPrincipals}
	return s.start(ctx, "Principals", principals)
}

func isURL(jwks string) bool {
	return strings.HasPrefix(jwks, "https://") || strings.HasPrefix(jwks, "http://")
}

// loadJWKS lets the verifier read its keys again.
func (s *security) loadJWKS(context.Context, [][]byte) ([]slog.Attr, error) {
	return nil, s.jwt.Reload()
}

// start loads what the server cannot start without, and follows it from then on.
func (s *security) start(ctx context.Context, field string, r reloadable) error {
	if err := s.reloads.start(ctx, r); err != nil {
		return &ConfigError{field, strings.Join(r.files, ", "), "it cannot be used: " + err.Error()}
	}
	return nil
}

// loadPrincipals puts a policy into force, also for calls on connections that are open.
func (s *security) loadPrincipals(ctx context.Context, files [][]byte) ([]slog.Attr, error) {
	policy, err := auth.ParsePolicy(files[0])
	if err != nil {
		return nil, err
	}
	kinds := policy.Kinds()
	switch {
	case kinds.Certificates && s.cfg.TLSClientCA == "":
		return nil, errors.New("it names certificates, which nothing can check without --tls-client-ca")
	case kinds.JWT && s.jwt == nil:
		return nil, errors.New("it names jwt_subjects, which nothing can check without --jwt-jwks, --jwt-issuer and " +
			"--jwt-audience")
	}
	s.auth.SetPolicy(policy)
	if policy.Len() == 0 {
		s.cfg.Logger.WarnContext(ctx, "the file of principals names nobody: every call is refused")
	}
	return []slog.Attr{slog.Int("principals", policy.Len())}, nil
}

func (s *security) openTLS(ctx context.Context, metrics *ops.Metrics) error {
	s.tls = newServerTLS(s.cfg, metrics)
	certificate := reloadable{"tls_certificate", []string{s.cfg.TLSCert, s.cfg.TLSKey}, s.tls.loadCertificate}
	if err := s.start(ctx, "TLSCert", certificate); err != nil || s.cfg.TLSClientCA == "" {
		return err
	}
	return s.start(ctx, "TLSClientCA", reloadable{"tls_client_ca", []string{s.cfg.TLSClientCA}, s.loadClientCAs})
}

// loadClientCAs replaces the authorities of clients, also for calls on connections that are open.
func (s *security) loadClientCAs(_ context.Context, files [][]byte) ([]slog.Attr, error) {
	pool, n, err := parseAuthorities(files[0])
	if err != nil {
		return nil, err
	}
	s.tls.setClientCAs(pool)
	s.auth.SetClientCAs(pool)
	return []slog.Attr{slog.Int("authorities", n)}, nil
}

// credentials are those of all listeners.
func (s *security) credentials() credentials.TransportCredentials {
	return newTransportCredentials(s.tls)
}

// Preflight returns the error that New would return before it opens the store: for fields, addresses, and the files
// about TLS and identity. It changes nothing, and answers nobody.
func (c Config) Preflight(ctx context.Context) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.Logger = nil // New tells.
	c = c.withDefaults()
	if _, err := resolveAll(ctx, c); err != nil {
		return err
	}
	s, err := openSecurity(ctx, c, ops.NewMetrics(""))
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// openAuditLog opens the audit trail, nil where there is none.
func openAuditLog(cfg Config) (*audit.Log, error) {
	if cfg.AuditLog == "" {
		return nil, nil
	}
	log, err := audit.Open(cfg.AuditLog, cfg.Stdout)
	if err != nil {
		return nil, &ConfigError{"AuditLog", cfg.AuditLog, "it cannot be used: " + err.Error()}
	}
	return log, nil
}
