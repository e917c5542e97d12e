package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
)

// Limits of sets of keys.
const (
	maxJWKSBytes = 1 << 20
	maxKeys      = 100 // a JWT that names none may be tried with all
	minRSABits   = 2048
	maxRedirects = 3
	fetchTimeout = 10 * time.Second
)

// parseKeys reads a JWKS. It passes over keys that are for something else, and over those that cannot be used and says
// why; but one key must be left.
func parseKeys(data []byte) (keys []jwkset.JWK, unusable []error, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, nil, errors.New("it is no JWKS: no JSON object with a list keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("there are %d keys, more than %d", len(set.Keys), maxKeys)
	}
	for i, raw := range set.Keys {
		key, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		switch {
		case errors.Is(err, jwkset.ErrUnsupportedKey):
		case err != nil:
			unusable = append(unusable, fmt.Errorf("key %d is malformed or not public", i+1)) // The error may hold a secret.
		case !verifies(key):
		case isWeak(key):
			unusable = append(unusable, fmt.Errorf("key %d has fewer than %d bits", i+1, minRSABits))
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, nil, errors.Join(append(unusable, errors.New("there is no key that can be used"))...)
	}
	return keys, unusable, nil
}

// verifies tells whether a key is there to verify signatures.
func verifies(key jwkset.JWK) bool {
	switch key.Key().(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return false
	}
	about := key.Marshal()
	return (about.USE == "" || about.USE == jwkset.UseSig) &&
		(len(about.KEYOPS) == 0 || slices.Contains(about.KEYOPS, jwkset.KeyOpsVerify))
}

func isWeak(key jwkset.JWK) bool {
	public, ok := key.Key().(*rsa.PublicKey)
	return ok && public.N.BitLen() < minRSABits
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxJWKSBytes+1))
	if err == nil && len(data) > maxJWKSBytes {
		return nil, fmt.Errorf("there are more than %d bytes", maxJWKSBytes)
	}
	return data, err
}

func fetch(ctx context.Context, client *http.Client, u *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := client.Do(request)
	var about *url.Error
	if errors.As(err, &about) {
		return nil, about.Err // without the URL, which may be one with a password that it redirects to
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return readAll(response.Body)
}

// newClient returns a client that is not led astray by redirects.
func newClient(given *http.Client) *http.Client {
	var client http.Client
	if given != nil {
		client = *given
	} else if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		client.Transport = transport.Clone() // so that its connections can be closed
	}
	client.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("there are more than %d redirects", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
			return errors.New("it redirects to a URL without https")
		}
		if err := checkURL(request.URL); err != nil {
			return fmt.Errorf("it redirects to a URL that %w", err)
		}
		return nil
	}
	return &client
}

// checkURL says what is wrong with a URL of keys: whoever can change what it answers can make JWTs.
func checkURL(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("has no host")
	case u.User != nil:
		return errors.New("has a user or password in it")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return errors.New("is without https, which only this host may be")
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
