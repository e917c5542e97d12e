package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Defaults of a Config. The client has DefaultListen as its target.
const (
	DefaultListen             = "127.0.0.1:7711"
	DefaultHTTP               = "127.0.0.1:7712" // what the daemon uses; in a Config an empty address is off
	DefaultData               = "./memoryd-data"
	DefaultShutdownTimeout    = 10 * time.Second
	DefaultCallTimeout        = 30 * time.Second
	DefaultMaxConcurrentCalls = 1024
	DefaultMaxConcurrentBytes = 256 << 20
	DefaultBackupKeep         = 7
	DefaultSocketMode         = fs.FileMode(0o600)
	DefaultJWTLeeway          = 30 * time.Second
)

// Config says what a Server serves, and where. The zero value serves DefaultData on DefaultListen.
type Config struct {
	// Listen are the addresses to serve on: "host:port", "unix:///absolute/path" or "unix:relative/path". Port 0 is
	// any free one. Empty is DefaultListen, or nothing where Listeners has any.
	Listen []string
	// Listeners are listeners to serve on besides, such as those of socket activation. The server closes them, also
	// where New fails, and asks nothing about who can reach them.
	Listeners []net.Listener
	// HTTP is the address of the side port with metrics and health; "" is none.
	HTTP string
	// Insecure allows addresses that other machines can reach where calls are not encrypted, or nobody is authenticated:
	// whoever reaches them, or is on the way to them, can then read and change everything.
	Insecure bool
	// SocketMode are the permissions of unix sockets: to connect takes those to write. Only systems of the kind of Unix
	// have them. 0 is DefaultSocketMode.
	SocketMode fs.FileMode

	// TLSCert and TLSKey are files in PEM with the certificate of the server, with those between it and the authority
	// behind it, and its key. With them TCP, the side port included, is served with TLS alone; unix sockets are not.
	// Like all files about TLS and identity they are read again when they change; see Server.Reload.
	TLSCert, TLSKey string
	// TLSClientCA is a file in PEM with the authorities whose certificates clients may have. "": none are asked for.
	TLSClientCA string

	// Principals is the file that says who may call, how callers show who they are, and what they may do. It counts for
	// all listeners, and for all but health on the side port. "": whoever can connect may do everything.
	Principals string
	// JWT are the JSON Web Tokens that callers may show. The zero value is none.
	JWT JWT

	// AuditLog is the file to which the audit trail is appended; "-" is Stdout, and "" is no trail.
	AuditLog string
	// Stdout is where the audit trail goes if AuditLog says so. A reader that stalls holds up a
	// call for a second at most, and costs lines. nil is os.Stdout.
	Stdout io.Writer

	// Data is the directory that holds the store, made if it is not there. "" is DefaultData.
	Data string
	// EncryptionKeyset and EncryptionKeyURI are the keyset that the store is encrypted with: see Keyset. "": it is not
	// encrypted. Paths and namespaces are readable nevertheless. Not with Store.
	EncryptionKeyset, EncryptionKeyURI string
	// Store is used instead of Data where it is not nil. It stays the caller's to close, after Run has returned.
	Store kv.Store

	// Defaults are the settings of namespaces that set nothing themselves; nil fields take those of package memory.
	Defaults memory.Settings
	// RequestWindow is how long a request that succeeded can be repeated under its id without being done again. 0 is
	// memory.DefaultRequestWindow.
	RequestWindow time.Duration

	// BackupDir is a directory for backups that nothing else uses, made if it is not there. BackupEvery is how long after
	// one backup the next is made; 0 makes none. BackupKeep is how many are kept; 0 is DefaultBackupKeep.
	BackupDir   string
	BackupEvery time.Duration
	BackupKeep  int

	// ShutdownTimeout is how long calls may go on after the server was told to stop. 0 is DefaultShutdownTimeout.
	ShutdownTimeout time.Duration
	// CallTimeout is the longest that a call may take, whatever its own deadline. Streams of files may take ten times
	// as long. 0 is DefaultCallTimeout.
	CallTimeout time.Duration
	// MaxConcurrentCalls is the most calls that run at once; one more is refused. One principal has at most half of them.
	// 0 is DefaultMaxConcurrentCalls.
	MaxConcurrentCalls int
	// MaxConcurrentBytes is the most bytes of requests that calls hold at once; a request too many is refused once it has
	// been read. What a call takes in all is a small multiple of its request. At least MaxRequestBytes; 0 is
	// DefaultMaxConcurrentBytes.
	MaxConcurrentBytes int64

	// Channelz serves grpc.channelz.v1, which shows what gRPC does with its connections.
	Channelz bool
	// Pprof serves the profiles of package net/http/pprof below /debug/pprof/ on the side port, to callers who may
	// administer all namespaces. It needs HTTP.
	Pprof bool

	// TracerProvider makes a span for every call of the services of memoryd, with its namespace and what became of it, and
	// never a path or what memories contain. It stays the caller's to shut down, after Run has returned. nil: calls are
	// not traced.
	TracerProvider trace.TracerProvider
	// Propagator finds the trace that a caller is in. nil is W3C Trace Context and Baggage.
	Propagator propagation.TextMapPropagator

	// Logger gets what happens, and never what memories contain. A logger that blocks blocks the calls that log. nil
	// discards it.
	Logger *slog.Logger

	// now and times are set by tests; zero values are time.Now and the constants of this package.
	now   func() time.Time
	times timings
}

// ConfigError says what is wrong with a field of a Config.
type ConfigError struct {
	Field string // the name of the field
	Value any
	Want  string // what to give instead
}

// Error implements error.
func (e *ConfigError) Error() string { return fmt.Sprintf("%s is %v: %s", e.Field, e.Value, e.Want) }

// Validate returns a *ConfigError for the first field that is out of its range. It opens and resolves nothing.
func (c Config) Validate() error {
	for _, address := range c.Listen {
		if _, err := parseAddress("Listen", address); err != nil {
			return err
		}
	}
	if c.HTTP != "" {
		if _, err := parseAddress("HTTP", c.HTTP); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"RequestWindow", c.RequestWindow}, {"ShutdownTimeout", c.ShutdownTimeout}, {"CallTimeout", c.CallTimeout}} {
		if d.value < 0 {
			return &ConfigError{d.field, d.value, "it must be longer than 0s"}
		}
	}
	if err := c.validateBackups(); err != nil {
		return err
	}
	if err := c.validateSecurity(); err != nil {
		return err
	}
	if err := c.validateKeyset(); err != nil {
		return err
	}
	if c.Pprof && c.HTTP == "" {
		return &ConfigError{"Pprof", c.Pprof, "it must be false, since there is no side port to serve profiles on"}
	}
	if c.MaxConcurrentCalls < 0 {
		return &ConfigError{"MaxConcurrentCalls", c.MaxConcurrentCalls, "it must be 1 or more"}
	}
	if c.MaxConcurrentBytes != 0 && c.MaxConcurrentBytes < MaxRequestBytes {
		return &ConfigError{
			"MaxConcurrentBytes", c.MaxConcurrentBytes, fmt.Sprintf("it must be %d (one request) or more", MaxRequestBytes),
		}
	}
	return validateDefaults(c.Defaults)
}

func (c Config) validateBackups() error {
	if c.BackupEvery != 0 && c.BackupEvery < minBackupEvery {
		return &ConfigError{"BackupEvery", c.BackupEvery, fmt.Sprintf("it must be 0s (off), or %s or more", minBackupEvery)}
	}
	if c.BackupEvery == 0 && c.BackupDir != "" {
		return &ConfigError{"BackupEvery", c.BackupEvery, "it must be longer than 0s, since there is a directory for backups"}
	}
	if c.BackupEvery != 0 && c.BackupDir == "" {
		return &ConfigError{"BackupDir", "", "it must be a directory, since backups are to be made"}
	}
	if c.BackupKeep < 0 {
		return &ConfigError{"BackupKeep", c.BackupKeep, "it must be 1 or more"}
	}
	return nil
}

func validateDefaults(s memory.Settings) error {
	err := s.Validate()
	var invalid *memory.InvalidError
	if errors.As(err, &invalid) {
		return &ConfigError{"Defaults." + fieldName(invalid.Field), invalid.Value, invalid.Want}
	}
	return err
}

// fieldName is the field of memory.Settings that has the name of a setting: ViewMaxChars of view_max_chars.
func fieldName(setting string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(setting, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// withDefaults fills in the zero values.
func (c Config) withDefaults() Config {
	if len(c.Listen) == 0 && len(c.Listeners) == 0 {
		c.Listen = []string{DefaultListen}
	}
	if c.Data == "" {
		c.Data = DefaultData
	}
	if c.BackupKeep == 0 {
		c.BackupKeep = DefaultBackupKeep
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.MaxConcurrentCalls == 0 {
		c.MaxConcurrentCalls = DefaultMaxConcurrentCalls
	}
	if c.MaxConcurrentBytes == 0 {
		c.MaxConcurrentBytes = DefaultMaxConcurrentBytes
	}
	if c.SocketMode == 0 {
		c.SocketMode = DefaultSocketMode
	}
	if c.JWT.Leeway == 0 {
		c.JWT.Leeway = DefaultJWTLeeway
	}
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.times = c.times.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
