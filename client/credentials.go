package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// maxTokenBytes is the longest token. The service takes no longer ones, which would be those of nobody.
	maxTokenBytes = 8 << 10
	// maxTokenFileBytes is the longest file with a token, and what is around it.
	maxTokenFileBytes = 2 * maxTokenBytes
	// tokenAge is how long what was read from a token file counts.
	tokenAge = time.Second
)

// credentials returns the options of gRPC that say who the two sides are.
func (o *options) credentials() ([]grpc.DialOption, error) {
	var opts []grpc.DialOption
	if o.transport != nil {
		transport, err := o.transport()
		if err != nil {
			return nil, err
		}
		opts = append(opts, grpc.WithTransportCredentials(transport))
	}
	if o.authority != "" {
		opts = append(opts, grpc.WithAuthority(o.authority))
	}
	if o.tokenErr != nil {
		return nil, o.tokenErr
	}
	switch {
	case o.tokenFile != nil:
		opts = append(opts, grpc.WithPerRPCCredentials(tokenCredentials{o.tokenFile.token, o.plainText}))
	case o.token != "":
		token := func() (string, error) { return o.token, nil }
		opts = append(opts, grpc.WithPerRPCCredentials(tokenCredentials{token, o.plainText}))
	}
	return opts, nil
}

// WithTLS makes the connection a TLS one, of version 1.2 or later whatever config says. nil is a config without
// anything, which trusts the certificate authorities of the system. The config is copied. The service has to have a
// certificate for config.ServerName, or else for the host of the target. The last of WithTLS and WithTLSFiles counts.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return func(o *options) {
		o.authority = "" // gRPC takes ServerName out of the config
		o.transport = func() (credentials.TransportCredentials, error) { return credentials.NewTLS(config), nil }
	}
}

// TLSFiles says where the files of a TLS connection are, all in PEM form.
type TLSFiles struct {
	// CA holds the certificates of those who may sign that of the service. Empty: the authorities of the system.
	CA string
	// Cert holds the certificate of the client, with those between it and its authority, and Key its private key.
	// Empty, both of them: the client shows no certificate.
	Cert, Key string
	// ServerName is the name that the certificate of the service has to be for. Empty: the host of the target, which
	// is localhost for a unix socket.
	ServerName string
}

// WithTLSFiles makes the connection a TLS one, of version 1.2 or later, with what the files hold. Dial fails where they
// cannot be used. They are read again for each new connection, so that renewed ones need no new Client; where they
// cannot be used by then, calls fail as those of a service that cannot be reached. The last of WithTLS and WithTLSFiles
// counts.
func WithTLSFiles(files TLSFiles) Option {
	return func(o *options) {
		o.authority = files.ServerName
		o.transport = func() (credentials.TransportCredentials, error) {
			config, err := files.config()
			if err != nil {
				return nil, err
			}
			return fileCredentials{credentials.NewTLS(config), files}, nil
		}
	}
}

// config reads the files.
func (f TLSFiles) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authorities: no certificate in PEM form in %s", f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return config, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("read client certificate: a certificate and its key come together")
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read client certificate from %s and its key from %s: %w", f.Cert, f.Key, err)
	}
	// Unlike config.Certificates it is sent even if the service names other authorities, and is then refused for a reason.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return config, nil
}

// fileCredentials are TLS credentials that read their files for each connection.
type fileCredentials struct {
	credentials.TransportCredentials // of what the files held for Dial

	files TLSFiles
}

// ClientHandshake implements credentials.TransportCredentials.
func (c fileCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.files.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c fileCredentials) Clone() credentials.TransportCredentials {
	return fileCredentials{c.TransportCredentials.Clone(), c.files}
}

// WithToken sends a bearer token with every call. Dial fails where it is empty or cannot be a token. The token is sent
// over TLS, unix sockets and connections to this machine; where the connection is another one, calls fail with the code
// UNAUTHENTICATED before anything of them is sent. See also WithTokenInPlainText. The last of WithToken and
// WithTokenFile counts.
func WithToken(token string) Option {
	return func(o *options) {
		o.token, o.tokenFile, o.tokenErr = token, nil, checkToken(token)
	}
}

// WithTokenFile is WithToken with the content of a file, of which blanks and newlines around it are no part. The file
// is read again at most once a second, so that tokens can be replaced while the client is in use; a pipe is read once.
// When a call fails with the code UNAUTHENTICATED the file is read at once, since it may have been replaced just then,
// and the call is repeated, once, if the token is another one by now. Otherwise, and while the file is missing or does
// not hold a token, calls fail with that code.
func WithTokenFile(path string) Option {
	return func(o *options) { o.token, o.tokenFile, o.tokenErr = "", &tokenFile{path: path}, nil }
}

// WithTokenInPlainText allows that the token is sent in plain text to other machines, where everybody on the way can
// read and use it. It is for networks that encrypt underneath, such as a service mesh.
func WithTokenInPlainText() Option {
	return func(o *options) { o.plainText = true }
}

// checkToken tells what is wrong with a token, without a word of it.
func checkToken(token string) error {
	switch {
	case token == "":
		return errors.New("the token is empty")
	case len(token) > maxTokenBytes:
		return fmt.Errorf("the token has more than %d bytes", maxTokenBytes)
	case strings.ContainsFunc(token, notInToken):
		return errors.New("the token has characters other than a-z, A-Z, 0-9 and -._~+/=")
	}
	return nil
}

// notInToken tells what RFC 6750, section 2.1, allows in no token, and the service refuses.
func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~+/=", r)
}

// tokenFile is a file with a token.
type tokenFile struct {
	path string

	mu      sync.Mutex
	content string
	read    time.Time // when content was read; zero: there is none
	once    bool      // there is nothing to be read again, as from a pipe
}

// token returns what the file holds, or held a moment ago.
func (f *tokenFile) token() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.read.IsZero() && (f.once || time.Since(f.read) < tokenAge) {
		return f.content, nil
	}
	if err := f.load(); err != nil {
		return "", fmt.Errorf("read token file %s: %w", f.path, err)
	}
	return f.content, nil
}

// replaced reads the file now, and tells whether it holds a token other than that one. A nil file holds none.
func (f *tokenFile) replaced(token string) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.once && f.load() != nil {
		return false // The call has failed already, and the next one tells.
	}
	return f.content != token
}

func (f *tokenFile) load() error {
	file, err := os.Open(f.path)
	if err != nil {
		return withoutPath(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return withoutPath(err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxTokenFileBytes+1))
	if err != nil {
		return withoutPath(err)
	}
	if len(content) > maxTokenFileBytes {
		return fmt.Errorf("it has more than %d bytes", maxTokenFileBytes)
	}
	token := string(bytes.TrimSpace(content))
	if err := checkToken(token); err != nil {
		return err
	}
	f.content, f.read, f.once = token, time.Now(), !info.Mode().IsRegular()
	return nil
}

// withoutPath returns what is wrong with a file whose path is said already.
func withoutPath(err error) error {
	if pathErr := new(fs.PathError); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// tokenCredentials is what gRPC asks for the token of each call.
type tokenCredentials struct {
	token     func() (string, error)
	plainText bool // it may go anywhere
}

// GetRequestMetadata implements credentials.PerRPCCredentials. gRPC calls it when there is a connection and nothing was
// sent.
func (c tokenCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if !c.plainText && !isPrivate(ctx) {
		return nil, status.Error(codes.Unauthenticated,
			"the token was not sent, as the connection to the service is in plain text and leaves this machine; use TLS")
	}
	token, err := c.token()
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. gRPC's own check knows no connections that stay on
// the machine.
func (tokenCredentials) RequireTransportSecurity() bool { return false }

// isPrivate tells whether nobody else can read the connection of a call. It goes by the connection and not by the
// target, whose name can stand for any machine.
func isPrivate(ctx context.Context) bool {
	info, _ := credentials.RequestInfoFromContext(ctx)
	if credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) == nil {
		return true
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	switch addr := p.Addr.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	default:
		return false
	}
}
