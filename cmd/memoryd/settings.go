package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/duration"
	"github.com/seed-7f2870e1/memoryd/server"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Names of the settings: of the flag, and of the key in the file.
const (
	keyListen             = "listen"
	keyHTTP               = "http"
	keyData               = "data"
	keyInsecure           = "insecure"
	keySocketMode         = "socket-mode"
	keyTLSCert            = "tls-cert"
	keyTLSKey             = "tls-key"
	keyTLSClientCA        = "tls-client-ca"
	keyPrincipals         = "principals"
	keyJWTJWKS            = "jwt-jwks"
	keyJWTIssuer          = "jwt-issuer"
	keyJWTAudience        = "jwt-audience"
	keyJWTAlgorithms      = "jwt-algorithms"
	keyJWTLeeway          = "jwt-leeway"
	keyAuditLog           = "audit-log"
	keyChannelz           = "channelz"
	keyPprof              = "pprof"
	keyConfig             = "config"
	keyLogLevel           = "log-level"
	keyLogFormat          = "log-format"
	keyShutdownTimeout    = "shutdown-timeout"
	keyCallTimeout        = "call-timeout"
	keyMaxConcurrentCalls = "max-concurrent-calls"
	keyMaxConcurrentBytes = "max-concurrent-bytes"
	keyRequestWindow      = "request-window"
	keyCreateOnExisting   = "create-on-existing"
	keyViewMaxChars       = "view-max-chars"
	keyMaxFileBytes       = "max-file-bytes"
	keyMaxFiles           = "max-files"
	keyMaxTotalBytes      = "max-total-bytes"
	keyCallsPerSecond     = "calls-per-second"
	keyExpireUnreadAfter  = "expire-unread-after"
	keySecrets            = "secrets"
	keyBackupDir          = "backup-dir"
	keyBackupEvery        = "backup-every"
	keyBackupKeep         = "backup-keep"
	keyEncryptionKeyset   = "encryption-keyset"
	keyEncryptionKeyURI   = "encryption-key-uri"
)

// offlineSettings are what commands need that work on the data of a service while none runs.
var offlineSettings = []string{keyData, keyEncryptionKeyset, keyEncryptionKeyURI, keyConfig, keyLogLevel, keyLogFormat}

// addSettings adds the settings of these names to a set of flags, and all where there are none.
func addSettings(flags *pflag.FlagSet, names ...string) {
	flags.SortFlags = false
	allSettings().VisitAll(func(f *pflag.Flag) {
		if len(names) == 0 || slices.Contains(names, f.Name) {
			flags.AddFlag(f)
		}
	})
}

// allSettings are the settings as flags. Their names, types, defaults and meanings are said here alone.
func allSettings() *pflag.FlagSet {
	flags := pflag.NewFlagSet("memoryd", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringSlice(keyListen, []string{server.DefaultListen},
		"`address` to serve on: host:port or unix:///path; may be repeated")
	flags.String(keyData, server.DefaultData, "`directory` that holds the memories")
	flags.String(keyHTTP, server.DefaultHTTP,
		"`address` of the side port with /metrics, /healthz and /readyz; empty is none")
	flags.Bool(keyInsecure, false, "allow addresses that other machines can reach, without encryption or authentication")
	flags.String(keySocketMode, fmt.Sprintf("%#o", server.DefaultSocketMode),
		"permissions of unix sockets in `octal`, such as 0660 to let a group connect")
	flags.String(keyTLSCert, "", "`file` with the certificate of the service in PEM; TCP is served with TLS alone then")
	flags.String(keyTLSKey, "", "`file` with the key of the certificate in PEM")
	flags.String(keyTLSClientCA, "", "`file` with the authorities in PEM whose certificates clients may have")
	flags.String(keyPrincipals, "",
		"YAML `file` that says who may call and what they may do; empty is everyone who can connect, everything")
	flags.String(keyJWTJWKS, "", "`file` or https URL with the keys of the issuer of JWTs")
	flags.String(keyJWTIssuer, "", "issuer of JWTs (iss)")
	flags.String(keyJWTAudience, "", "whom JWTs must be for (aud)")
	flags.StringSlice(keyJWTAlgorithms, nil,
		"signature `algorithm` of JWTs, such as RS256; may be repeated; empty is all with pairs of keys")
	flags.Duration(keyJWTLeeway, server.DefaultJWTLeeway, "how much the clocks of issuer and service may differ")
	flags.String(keyAuditLog, "", "`file` for the audit trail of writes and denials; - is standard output, empty is none")
	flags.Bool(keyChannelz, false, "serve grpc.channelz.v1, which shows what gRPC does with its connections")
	flags.Bool(keyPprof, false, "serve profiles of the process on the side port, below /debug/pprof/")
	flags.String(keyConfig, "",
		"YAML `file` with settings; names of files in it are relative to the working directory, as those of flags are")
	flags.String(keyLogLevel, "info", "least `level` of what is logged: debug, info, warn or error")
	flags.String(keyLogFormat, "text", "`format` of the log: text or json")
	flags.Duration(keyShutdownTimeout, server.DefaultShutdownTimeout, "how long calls may go on when the service stops")
	flags.Duration(keyCallTimeout, server.DefaultCallTimeout, "how long a call may take; ten times that for Put and Get")
	flags.Int(keyMaxConcurrentCalls, server.DefaultMaxConcurrentCalls, "how many calls may run at once")
	flags.Int64(keyMaxConcurrentBytes, server.DefaultMaxConcurrentBytes,
		"how many bytes of requests may be held at once; at least 16777216")
	flags.Duration(keyRequestWindow, memory.DefaultRequestWindow,
		"how long a request that succeeded can be repeated under its id without being done again")
	flags.String(keyCreateOnExisting, "error",
		"what create does where a file exists, in namespaces that do not say: error or overwrite")
	flags.Int64(keyViewMaxChars, memory.DefaultViewMaxChars,
		"how many characters view shows, in namespaces that do not say; 0 is no limit")
	flags.Int64(keyMaxFileBytes, memory.DefaultMaxFileBytes,
		"how many bytes a file may have, in namespaces that do not say; at most 8388608")
	flags.Int64(keyMaxFiles, memory.DefaultMaxFiles,
		"how many files a namespace may have, if it does not say; 0 is no limit")
	flags.Int64(keyMaxTotalBytes, memory.DefaultMaxTotalBytes,
		"how many bytes all files of a namespace may have, if it does not say; 0 is no limit")
	flags.Int64(keyCallsPerSecond, 0,
		"how many calls a second may be made on a namespace, if it does not say; 0 is no limit")
	flags.Var(new(duration.Value), keyExpireUnreadAfter,
		"how long after it was last viewed or changed a file is removed, such as 30d or 12h, in namespaces that do not say; "+
			"0s is never")
	flags.String(keySecrets, "report",
		"what happens to a secret in a text that is written, in namespaces that do not say: off, report, mask or refuse")
	flags.String(keyBackupDir, "", "`directory` for scheduled backups, which nothing else uses")
	flags.Duration(keyBackupEvery, 0, "how long after one scheduled backup the next is made; 0s is never")
	flags.Int(keyBackupKeep, server.DefaultBackupKeep, "how many scheduled backups are kept")
	flags.String(keyEncryptionKeyset, "",
		"`file` with the keyset that contents are encrypted with; empty is no encryption")
	flags.String(keyEncryptionKeyURI, "",
		"`URI` of the key in a KMS that encrypts the keyset: aws-kms://... or gcp-kms://...; empty is a keyset in clear")
	return flags
}

// configFields are the settings behind the fields that a server.ConfigError names.
var configFields = map[string]string{
	"Listen":                     keyListen,
	"HTTP":                       keyHTTP,
	"SocketMode":                 keySocketMode,
	"TLSCert":                    keyTLSCert,
	"TLSKey":                     keyTLSKey,
	"TLSClientCA":                keyTLSClientCA,
	"Principals":                 keyPrincipals,
	"JWT.JWKS":                   keyJWTJWKS,
	"JWT.Issuer":                 keyJWTIssuer,
	"JWT.Audience":               keyJWTAudience,
	"JWT.Algorithms":             keyJWTAlgorithms,
	"JWT.Leeway":                 keyJWTLeeway,
	"AuditLog":                   keyAuditLog,
	"Pprof":                      keyPprof,
	"ShutdownTimeout":            keyShutdownTimeout,
	"CallTimeout":                keyCallTimeout,
	"MaxConcurrentCalls":         keyMaxConcurrentCalls,
	"MaxConcurrentBytes":         keyMaxConcurrentBytes,
	"RequestWindow":              keyRequestWindow,
	"Defaults.CreateOnExisting":  keyCreateOnExisting,
	"Defaults.ViewMaxChars":      keyViewMaxChars,
	"Defaults.MaxFileBytes":      keyMaxFileBytes,
	"Defaults.MaxFiles":          keyMaxFiles,
	"Defaults.MaxTotalBytes":     keyMaxTotalBytes,
	"Defaults.CallsPerSecond":    keyCallsPerSecond,
	"Defaults.ExpireUnreadAfter": keyExpireUnreadAfter,
	"Defaults.Secrets":           keySecrets,
	"BackupDir":                  keyBackupDir,
	"BackupEvery":                keyBackupEvery,
	"BackupKeep":                 keyBackupKeep,
	"EncryptionKeyset":           keyEncryptionKeyset,
}

var createOnExisting = map[string]memory.CreateOnExisting{
	"error": memory.CreateError, "overwrite": memory.CreateOverwrite,
}

var secretsPolicies = map[string]memory.SecretsPolicy{
	"off": memory.SecretsOff, "report": memory.SecretsReport, "mask": memory.SecretsMask, "refuse": memory.SecretsRefuse,
}

// serverConfig makes the settings a configuration of the server and checks it.
func (s *settings) serverConfig() (server.Config, error) {
	mode, err := strconv.ParseUint(s.values.String(keySocketMode), 8, 32)
	if err != nil || mode == 0 {
		return server.Config{}, s.invalid(keySocketMode, "it must be permissions in octal, such as 0600 or 0660")
	}
	cfg := server.Config{
		Listen:      s.values.Strings(keyListen),
		HTTP:        s.values.String(keyHTTP),
		Data:        s.values.String(keyData),
		Insecure:    s.values.Bool(keyInsecure),
		SocketMode:  fs.FileMode(mode),
		TLSCert:     s.values.String(keyTLSCert),
		TLSKey:      s.values.String(keyTLSKey),
		TLSClientCA: s.values.String(keyTLSClientCA),
		Principals:  s.values.String(keyPrincipals),
		JWT: server.JWT{
			JWKS:       s.values.String(keyJWTJWKS),
			Issuer:     s.values.String(keyJWTIssuer),
			Audience:   s.values.String(keyJWTAudience),
			Algorithms: s.values.Strings(keyJWTAlgorithms),
			Leeway:     s.values.Duration(keyJWTLeeway),
		},
		AuditLog:           s.values.String(keyAuditLog),
		Channelz:           s.values.Bool(keyChannelz),
		Pprof:              s.values.Bool(keyPprof),
		ShutdownTimeout:    s.values.Duration(keyShutdownTimeout),
		CallTimeout:        s.values.Duration(keyCallTimeout),
		MaxConcurrentCalls: s.values.Int(keyMaxConcurrentCalls),
		MaxConcurrentBytes: s.values.Int64(keyMaxConcurrentBytes),
		RequestWindow:      s.values.Duration(keyRequestWindow),
		BackupDir:          s.values.String(keyBackupDir),
		BackupEvery:        s.values.Duration(keyBackupEvery),
		BackupKeep:         s.values.Int(keyBackupKeep),
		EncryptionKeyset:   s.values.String(keyEncryptionKeyset),
		EncryptionKeyURI:   s.values.String(keyEncryptionKeyURI),
		Defaults: memory.Settings{
			ViewMaxChars:      new(s.values.Int64(keyViewMaxChars)),
			MaxFileBytes:      new(s.values.Int64(keyMaxFileBytes)),
			MaxFiles:          new(s.values.Int64(keyMaxFiles)),
			MaxTotalBytes:     new(s.values.Int64(keyMaxTotalBytes)),
			CallsPerSecond:    new(s.values.Int64(keyCallsPerSecond)),
			ExpireUnreadAfter: new(s.values.Duration(keyExpireUnreadAfter)),
			// A name that is none has the value 0, which is refused.
			CreateOnExisting: new(createOnExisting[s.values.String(keyCreateOnExisting)]),
			Secrets:          new(secretsPolicies[s.values.String(keySecrets)]),
		},
	}
	// To the server, zero values are its defaults.
	switch {
	case len(cfg.Listen) == 0:
		return server.Config{}, s.invalid(keyListen, "it must be at least one address")
	case cfg.Data == "":
		return server.Config{}, s.invalid(keyData, "it must be a directory")
	case cfg.JWT.Leeway == 0:
		return server.Config{}, s.invalid(keyJWTLeeway, "it must be longer than 0s")
	case cfg.RequestWindow == 0:
		return server.Config{}, s.invalid(keyRequestWindow, "it must be longer than 0s")
	case cfg.ShutdownTimeout == 0:
		return server.Config{}, s.invalid(keyShutdownTimeout, "it must be longer than 0s")
	case cfg.CallTimeout == 0:
		return server.Config{}, s.invalid(keyCallTimeout, "it must be longer than 0s")
	case cfg.BackupKeep == 0:
		return server.Config{}, s.invalid(keyBackupKeep, "it must be 1 or more")
	case cfg.MaxConcurrentCalls == 0:
		return server.Config{}, s.invalid(keyMaxConcurrentCalls, "it must be 1 or more")
	case cfg.MaxConcurrentBytes == 0:
		return server.Config{}, s.invalid(keyMaxConcurrentBytes, "it must be 16777216 (one request) or more")
	}
	if err := cfg.Validate(); err != nil {
		return server.Config{}, s.explain(err)
	}
	return cfg, nil
}

// explain turns a *server.ConfigError into an error that names the setting and where its value comes from.
func (s *settings) explain(err error) error {
	var invalid *server.ConfigError
	if !errors.As(err, &invalid) {
		return err
	}
	key, ok := configFields[invalid.Field]
	if !ok {
		return err
	}
	return s.invalid(key, invalid.Want)
}

// invalid is the error of a setting whose value cannot be used.
func (s *settings) invalid(key, want string) error {
	return settingErrorf("--%s is %s (%s): %s", key, s.show(key), s.sources[key], want)
}

// logger makes the logger that the settings ask for.
func (s *settings) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	switch s.values.String(keyLogLevel) {
	case "debug":
		level = slog.LevelDebug
	case "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, s.invalid(keyLogLevel, "it must be debug, info, warn or error")
	}
	opts := &slog.HandlerOptions{Level: level}
	switch s.values.String(keyLogFormat) {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, s.invalid(keyLogFormat, "it must be text or json")
	}
}

// show is the value of a setting as people read it.
func (s *settings) show(key string) string {
	text := fmt.Sprint(s.values.Get(key))
	if list, ok := s.values.Get(key).([]string); ok {
		text = strings.Join(list, ",")
	}
	if text == "" {
		return `""`
	}
	return text
}
