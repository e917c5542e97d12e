package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

// Limits and defaults of JWTs.
const (
	DefaultLeeway = 30 * time.Second
	MaxLeeway     = 5 * time.Minute
	maxKeyIDBytes = 256
	maxJWTTime    = 253402300799 // the end of the year 9999; beyond it the library's times overflow
)

// DefaultAlgorithms are the signatures that are accepted where nothing else is said, and all that can be. The others
// of JWT are none at all and those with a shared secret, which a public key must never be taken for.
func DefaultAlgorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

// JWTOptions says which JWTs are accepted.
type JWTOptions struct {
	// JWKS is where the keys of the issuer are: the path of a file, or a URL with https. One with http may only lead to
	// this host.
	JWKS     string
	Issuer   string // the claim iss, exactly; required
	Audience string // is or is in the claim aud; required

	Algorithms []string         // nil: DefaultAlgorithms
	Leeway     time.Duration    // how much clocks may differ; 0: DefaultLeeway, at most MaxLeeway
	Logger     *slog.Logger     // for trouble with the keys; nil: none
	HTTPClient *http.Client     // for the URL; nil: one of its own. Its CheckRedirect is not used.
	Now        func() time.Time // nil: time.Now
}

// JWTVerifier verifies JWTs by the keys of one issuer. It is safe for concurrent use. The caller closes it.
type JWTVerifier struct {
	keys    *keySource
	keyfunc keyfunc.Keyfunc
	parser  *jwt.Parser
}

// NewJWTVerifier returns a verifier that lives until Close. A file of keys must be good. A URL is read in the
// background, so that the server starts while the issuer is away: until then no JWT is good.
func NewJWTVerifier(ctx context.Context, opts JWTOptions) (*JWTVerifier, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	keys, err := newKeySource(ctx, opts)
	if err != nil {
		return nil, err
	}
	byID, err := keyfunc.New(keyfunc.Options{Storage: keys.storage})
	if err != nil {
		keys.close()
		return nil, fmt.Errorf("set up keys of JWTs: %w", err)
	}
	return &JWTVerifier{keys: keys, keyfunc: byID, parser: jwt.NewParser(
		jwt.WithValidMethods(opts.Algorithms),
		jwt.WithIssuer(opts.Issuer),
		jwt.WithAudience(opts.Audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(opts.Leeway),
		jwt.WithTimeFunc(opts.Now),
		jwt.WithStrictDecoding(),
	)}, nil
}

func (o *JWTOptions) setDefaults() error {
	switch {
	case o.JWKS == "":
		return errors.New("JWTs: no file or URL of keys is given")
	case o.Issuer == "":
		return errors.New("JWTs: no issuer is given")
	case o.Audience == "":
		return errors.New("JWTs: no audience is given")
	case o.Leeway < 0 || o.Leeway > MaxLeeway:
		return fmt.Errorf("JWTs: the leeway is %s; it must be between 0 and %s", o.Leeway, MaxLeeway)
	}
	for _, algorithm := range o.Algorithms {
		if all := DefaultAlgorithms(); !slices.Contains(all, algorithm) {
			return fmt.Errorf("JWTs: algorithm %q is not accepted; those that can be are %s", algorithm,
				strings.Join(all, ", "))
		}
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = DefaultAlgorithms()
	}
	if o.Leeway == 0 {
		o.Leeway = DefaultLeeway
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// Reload reads the keys again: a file at once, and with an error where it is broken; a URL in the background, and with
// a line in the log. In both cases the keys that are there stay until there are better ones.
func (v *JWTVerifier) Reload() error { return v.keys.reload() }

// Close ends what runs in the background. Verifying goes on with the keys that are there.
func (v *JWTVerifier) Close() { v.keys.close() }

// Causes of failures of JWTs. The library's own errors hold parts of the token.
var (
	errJWT          = errors.New("JWT: malformed")
	errJWTTwice     = errors.New("JWT: a name is there twice in the header or the claims")
	errJWTType      = errors.New("JWT: another type of token")
	errJWTCritical  = errors.New("JWT: with an extension that is not understood")
	errJWTKey       = errors.New("JWT: unknown key")
	errJWTKeyType   = errors.New("JWT: an algorithm that does not fit its key")
	errJWTSignature = errors.New("JWT: bad signature, or an algorithm that is not accepted")
	errJWTExpired   = errors.New("JWT: expired")
	errJWTEarly     = errors.New("JWT: not yet valid")
	errJWTIssuer    = errors.New("JWT: another issuer")
	errJWTAudience  = errors.New("JWT: another audience")
	errJWTClaims    = errors.New("JWT: a claim is missing or malformed")
)

// verify returns the subject of a JWT that is good. A key that is not known may be new: then it waits for the keys to
// be read again, if that may be done now.
func (v *JWTVerifier) verify(ctx context.Context, token string) (string, error) {
	subject, err := v.check(token)
	if errors.Is(err, errJWTKey) && v.keys.fresh(ctx) {
		subject, err = v.check(token)
	}
	return subject, err
}

func (v *JWTVerifier) check(token string) (string, error) {
	// A map instead of a struct, whose fields would also take a claim such as "SUB", which a user may have chosen.
	claims := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, claims, v.key); err != nil {
		return "", jwtCause(err)
	}
	subject, err := claims.GetSubject()
	if err != nil || subject == "" {
		return "", errJWTClaims
	}
	return subject, nil
}

// key returns what a JWT is to be verified by. Its algorithm is one that is accepted.
func (v *JWTVerifier) key(token *jwt.Token) (any, error) {
	if err := v.checkNames(token.Raw); err != nil {
		return nil, err
	}
	if err := checkHeader(token.Header); err != nil {
		return nil, err
	}
	if err := checkTimes(token.Claims); err != nil {
		return nil, err
	}
	found, err := v.keyfunc.Keyfunc(token)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		return nil, errJWTKey
	}
	if err != nil {
		return nil, errJWTKeyType
	}
	set, ok := found.(jwt.VerificationKeySet)
	if !ok {
		if !fits(token.Method, found) {
			return nil, errJWTKeyType
		}
		return found, nil
	}
	// The JWT names no key.
	set.Keys = slices.DeleteFunc(set.Keys, func(k jwt.VerificationKey) bool { return !fits(token.Method, k) })
	if len(set.Keys) == 0 {
		return nil, errJWTKey
	}
	return set, nil
}

// checkNames refuses a header or claims with a name that is there twice. The library takes the last value, and whoever
// else has checked the token may have taken the first.
func (v *JWTVerifier) checkNames(token string) error {
	for _, part := range strings.Split(token, ".")[:2] {
		object, err := v.parser.DecodeSegment(part)
		if err != nil {
			return errJWT
		}
		if err := checkNamesOf(object); err != nil {
			return err
		}
	}
	return nil
}

func checkNamesOf(object []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil { // its brace
		return errJWT
	}
	seen := map[json.Token]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return errJWT
		}
		if seen[name] {
			return errJWTTwice
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return errJWT
		}
	}
	return nil
}

// checkTimes refuses numbers that are no times. The library turns them into others.
func checkTimes(claims jwt.Claims) error {
	values, ok := claims.(jwt.MapClaims)
	if !ok {
		return errJWTClaims
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		value, ok := values[name]
		if !ok {
			continue
		}
		if seconds, ok := value.(float64); !ok || seconds < 0 || seconds > maxJWTTime {
			return errJWTClaims
		}
	}
	return nil
}

// checkHeader checks what the library does not.
func checkHeader(header map[string]any) error {
	if _, ok := header["crit"]; ok {
		return errJWTCritical
	}
	if typ, ok := header["typ"]; ok {
		name, _ := typ.(string)
		switch strings.TrimPrefix(strings.ToLower(name), "application/") {
		case "jwt", "at+jwt":
		default: // such as a logout token, which the same issuer signs
			return errJWTType
		}
	}
	if id, ok := header[jwkset.HeaderKID]; ok {
		if id, ok := id.(string); !ok || len(id) > maxKeyIDBytes {
			return errJWT
		}
	}
	return nil
}

// fits tells whether a key verifies signatures of a method. The library does not look at the curve.
func fits(method jwt.SigningMethod, key any) bool {
	switch method := method.(type) {
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		_, ok := key.(*rsa.PublicKey)
		return ok
	case *jwt.SigningMethodECDSA:
		public, ok := key.(*ecdsa.PublicKey)
		return ok && public.Curve.Params().BitSize == method.CurveBits
	case *jwt.SigningMethodEd25519:
		_, ok := key.(ed25519.PublicKey)
		return ok
	}
	return false
}

// jwtCause returns why a JWT is not good.
func jwtCause(err error) error {
	for _, cause := range []error{
		errJWT, errJWTTwice, errJWTType, errJWTCritical, errJWTClaims, errJWTKey, errJWTKeyType,
	} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errJWT
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errJWTSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return errJWTExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return errJWTEarly
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return errJWTIssuer
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return errJWTAudience
	default:
		return errJWTClaims
	}
}
