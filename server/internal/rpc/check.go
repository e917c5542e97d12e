package rpc

import (
	"encoding/base64"
	"fmt"

	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// MaxIDBytes is the most bytes of a request_id or session.
const MaxIDBytes = 128

// fieldNamespace is the field of an *memory.InvalidError that is about the name of a namespace.
const fieldNamespace = "namespace"

// namespaced is what every request about one namespace has.
type namespaced interface{ GetNamespace() string }

// recorded is what the requests that change something have besides.
type recorded interface {
	GetRequestId() string
	GetSession() string
}

// checkRequest checks the fields that requests have in common.
func checkRequest(req namespaced) error {
	if err := memory.ValidateNamespace(req.GetNamespace()); err != nil {
		return invalid(fieldNamespace, "%v", err)
	}
	if r, ok := req.(recorded); ok {
		if len(r.GetRequestId()) > MaxIDBytes {
			return invalid("request_id", "request_id may have at most %d bytes", MaxIDBytes)
		}
		if len(r.GetSession()) > MaxIDBytes {
			return invalid("session", "session may have at most %d bytes", MaxIDBytes)
		}
	}
	return nil
}

// pageSize reads a page_size: 0 is the default, and more than the most is the most.
func pageSize(size int32, standard, most int) (int, error) {
	switch n := int(size); {
	case n < 0:
		return 0, invalid("page_size", "page_size must be 0 or more")
	case n == 0:
		return standard, nil
	default:
		return min(n, most), nil
	}
}

// encodePageToken makes the token of a page that begins after a key, which callers are not meant to read.
func encodePageToken(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

// decodePageToken is the inverse of encodePageToken.
func decodePageToken(token string) (string, error) {
	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", errPageToken()
	}
	return string(after), nil
}

func errPageToken() error {
	return invalid("page_token", "page_token must be the next_page_token of the page before, or empty")
}

// invalid is an error about a field of a request.
func invalid(field, format string, args ...any) *memory.InvalidError {
	return &memory.InvalidError{Field: field, Text: fmt.Sprintf(format, args...)}
}
