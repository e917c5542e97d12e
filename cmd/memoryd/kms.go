package main

import (
	"context"
	"strings"
	"sync"

	"github.com/tink-crypto/tink-go-awskms/v3/integration/awskms"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// registerKMS makes the key management services known that --encryption-key-uri can name.
var registerKMS = sync.OnceFunc(func() {
	registry.RegisterKMSClient(lazyKMS{"aws-kms://", func(ctx context.Context, uri string) (registry.KMSClient, error) {
		return awskms.NewClientWithOptions(ctx, uri)
	}})
	registry.RegisterKMSClient(lazyKMS{"gcp-kms://", func(ctx context.Context, uri string) (registry.KMSClient, error) {
		return gcpkms.NewClient(ctx, uri)
	}})
})

// lazyKMS makes the client of a key management service when a key of it is wanted, and not before: it looks for
// credentials and dials.
type lazyKMS struct {
	prefix string // of the URIs of its keys
	open   func(ctx context.Context, uri string) (registry.KMSClient, error)
}

// Supported implements registry.KMSClient.
func (k lazyKMS) Supported(uri string) bool { return strings.HasPrefix(uri, k.prefix) }

// GetAEAD implements registry.KMSClient.
func (k lazyKMS) GetAEAD(uri string) (tink.AEAD, error) {
	client, err := k.open(context.Background(), uri)
	if err != nil {
		return nil, err
	}
	return client.GetAEAD(uri)
}
