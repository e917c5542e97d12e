package server

import (
	"io"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// NewToken makes a bearer token out of 32 random bytes, and the hash of it that a file of principals names. Nothing
// else can be known of the token from the hash.
func NewToken(random io.Reader) (token, hash string, err error) { return auth.NewToken(random) }

// ValidatePrincipals returns an error that names the line of what is wrong with a file of principals.
func ValidatePrincipals(data []byte) error {
	_, err := auth.ParsePolicy(data)
	return err
}

// ValidatePrincipalName returns an error that names the rule that the name of a principal breaks.
func ValidatePrincipalName(name string) error { return auth.ValidateName(name) }
