package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
)

// TokenPrefix is what tokens of NewToken begin with, so that scanners for secrets know them.
const TokenPrefix = "memoryd_"

// tokenBytes is how much of a token is random.
const tokenBytes = 32

// NewToken makes a token out of random bytes, and the hash of it that a policy names.
func NewToken(random io.Reader) (token, hash string, err error) {
	var secret [tokenBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return "", "", fmt.Errorf("read random bytes: %w", err)
	}
	token = TokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, hashPrefix + hex.EncodeToString(sum[:]), nil
}
