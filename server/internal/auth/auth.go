// Package auth says who calls and what they may do.
//
// A policy, the file of principals, gives names to credentials and rights in namespaces to names. A call shows who
// makes it in one of four ways, and the first that it shows decides:
//
//	authorization: Bearer TOKEN   a token by its SHA-256, or else a JWT by its subject
//	client certificate            the name in it: its first URI, else its first DNS name, else its common name
//	unix socket                   the user of the process at the other end
//
// So a good certificate does not save a bad token. All that fails has one error with one text. Failures that come too
// often from one address are marked, so that the log need not tell of each; nothing that is good waits for them.
//
// A Principal answers what it may do: it has rights on the namespaces that match patterns. Whoever may do nothing in a
// namespace is not to learn whether it exists.
package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// MaxTokenBytes is the most that is read of a bearer token.
const MaxTokenBytes = 8 << 10

// Options is what an Authenticator is made of.
type Options struct {
	Policy   *Policy          // nil: nobody is known
	JWT      *JWTVerifier     // nil: JWTs are not accepted. The caller closes it.
	Now      func() time.Time // nil: time.Now
	Throttle Throttle         // of failures
	Logger   *slog.Logger     // for the first use of each token; nil: none
}

// Authenticator answers who calls. It is safe for concurrent use.
type Authenticator struct {
	jwt      *JWTVerifier
	now      func() time.Time
	throttle *throttle
	logger   *slog.Logger

	policy atomic.Pointer[Policy]
	cas    atomic.Pointer[clientCAs]
}

// New returns an Authenticator that accepts no certificates until SetClientCAs.
func New(opts Options) *Authenticator {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authenticator{
		jwt: opts.JWT, now: opts.Now, throttle: newThrottle(opts.Throttle, opts.Now), logger: opts.Logger,
	}
	a.SetPolicy(opts.Policy)
	a.SetClientCAs(nil)
	return a
}

// SetPolicy puts a policy into force for all calls from now on, those on open connections too. With nil nobody is
// known.
func (a *Authenticator) SetPolicy(p *Policy) {
	if p == nil {
		p = newPolicy()
	}
	a.policy.Store(p)
}

// SetClientCAs sets who may issue the certificates of clients, for all calls from now on, those on open connections
// too. With nil none is accepted.
func (a *Authenticator) SetClientCAs(pool *x509.CertPool) { a.cas.Store(newClientCAs(pool)) }

// Authenticate answers who makes a gRPC call. Its error is ErrUnauthenticated, which wraps the cause for the log. It
// answers at once, except for a JWT whose key is being fetched, and few wait for that at a time.
func (a *Authenticator) Authenticate(ctx context.Context) (*Principal, error) {
	shown := shown{authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	shown.addPeer(ctx)
	return a.authenticate(ctx, shown)
}

// AuthenticateHTTP answers who makes an HTTP request, as Authenticate does; but it takes a second for who fails too
// often. Where the server of a unix socket puts a peer.Peer with PeerInfo into the context of its connections, the user
// of the process counts.
func (a *Authenticator) AuthenticateHTTP(r *http.Request) (*Principal, error) {
	shown := shown{authorization: r.Header.Values("Authorization")}
	shown.addPeer(r.Context())
	shown.tls = r.TLS
	if remote, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		shown.address = hostKey(remote.Addr())
	}
	p, err := a.authenticate(r.Context(), shown)
	if IsThrottled(err) {
		a.throttle.pause(r.Context(), shown.address)
	}
	return p, err
}

// shown is what a caller shows of itself.
type shown struct {
	authorization []string
	tls           *tls.ConnectionState // nil: none
	uid           uint32
	hasUID        bool
	address       netip.Addr // as PeerKey returns it
}

// addPeer adds what the connection of a call shows.
func (s *shown) addPeer(ctx context.Context) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	s.address = PeerKey(p.Addr)
	s.tls = tlsState(p.AuthInfo)
	if info, ok := p.AuthInfo.(PeerInfo); ok {
		s.uid, s.hasUID = info.UID, info.HasUID
	}
}

func (a *Authenticator) authenticate(ctx context.Context, s shown) (*Principal, error) {
	principal, err := a.identify(ctx, s)
	if err != nil {
		return nil, &unauthenticatedError{cause: err, throttled: a.throttle.fail(s.address)}
	}
	return principal, nil
}

// Causes of failures.
var (
	errNoCredential  = errors.New("no credential")
	errAuthorization = errors.New("not one authorization header with a bearer token")
	errToken         = errors.New("unknown token")
	errSubject       = errors.New("unknown subject of a JWT")
	errCertificate   = errors.New("unknown name in a client certificate")
	errUID           = errors.New("unknown user at a unix socket")
)

func (a *Authenticator) identify(ctx context.Context, s shown) (*Principal, error) {
	policy := a.policy.Load()
	if len(s.authorization) > 0 {
		return a.byAuthorization(ctx, policy, s.authorization)
	}
	cas := a.cas.Load()
	if s.tls != nil && len(s.tls.PeerCertificates) > 0 && cas.pool != nil {
		name, err := cas.name(s.tls.PeerCertificates, a.now())
		if err != nil {
			return nil, err
		}
		if p := policy.byCertificate(name); p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("%w: %.*q", errCertificate, MaxCredentialBytes, name)
	}
	if s.hasUID {
		return known(policy.byUID(s.uid), errUID)
	}
	return nil, errNoCredential
}

func known(p *Principal, unknown error) (*Principal, error) {
	if p == nil {
		return nil, unknown
	}
	return p, nil
}

func (a *Authenticator) byAuthorization(ctx context.Context, policy *Policy, values []string) (*Principal, error) {
	token, ok := bearer(values)
	if !ok {
		return nil, errAuthorization
	}
	if entry := policy.byToken(token); entry != nil {
		if entry.firstUse() {
			// Whoever replaces a token learns by it that the old one is still in use.
			a.logger.InfoContext(ctx, "token used for the first time since the principals were read",
				"principal", entry.principal.Name, "token", entry.hash.short())
		}
		return entry.principal, nil
	}
	if a.jwt == nil || strings.Count(token, ".") != 2 {
		return nil, errToken
	}
	subject, err := a.jwt.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	return known(policy.bySubject(subject), errSubject)
}

// bearer returns the token of the values of an authorization header. Of two values, none would be the one that
// whoever stands in front of the server has checked.
func bearer(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	token = strings.Trim(token, " ")
	if token == "" || len(token) > MaxTokenBytes || strings.ContainsFunc(token, notInToken) {
		return "", false
	}
	return token, true
}

// notInToken tells what RFC 6750 allows in no token.
func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~+/=", r)
}
