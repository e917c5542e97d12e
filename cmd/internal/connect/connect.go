// Package connect has what the programs beside agents share to reach a memoryd that wants to know who calls: the flags
// and variables for a token and for TLS, and what to check where the service cannot be reached or refuses.
package connect

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/client"
)

// The flags.
const (
	flagTokenFile  = "token-file"
	flagPlainText  = "token-in-plain-text"
	flagTLS        = "tls"
	flagCA         = "tls-ca"
	flagCert       = "tls-cert"
	flagKey        = "tls-key"
	flagServerName = "tls-server-name"
)

// Variables of the environment. The one with the token itself has no flag: everybody on the machine sees command lines.
const (
	envToken     = "MEMORYCTL_TOKEN"      //nolint:gosec // the name of a variable
	envTokenFile = "MEMORYCTL_TOKEN_FILE" //nolint:gosec // the name of a variable
	envTLS       = "MEMORYCTL_TLS"
)

// Flags are what the flags of a command say. The zero value is for Add.
type Flags struct {
	tokenFile string
	plainText bool
	tls       bool
	files     client.TLSFiles

	certificateShown bool // Options has made the client show one
}

// setting is a flag with a text, for which a variable can speak.
type setting struct {
	flag, env string
	value     *string
	usage     string
}

func (f *Flags) settings() []setting {
	return []setting{
		{flagCA, "MEMORYCTL_TLS_CA", &f.files.CA, "use TLS, and trust the authorities in this PEM `FILE`"},
		{flagCert, "MEMORYCTL_TLS_CERT", &f.files.Cert, "use TLS, and show the certificate in this PEM `FILE`"},
		{flagKey, "MEMORYCTL_TLS_KEY", &f.files.Key, "PEM `FILE` with the key of --tls-cert"},
		{
			flagServerName, "MEMORYCTL_TLS_SERVER_NAME", &f.files.ServerName,
			"use TLS, and want a certificate for this `NAME` instead of the host of --addr",
		},
		{
			flagTokenFile, envTokenFile, &f.tokenFile,
			"`FILE` with the token that says who calls; the token itself can be in " + envToken,
		},
	}
}

// Add adds the flags to those of a command.
func (f *Flags) Add(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.BoolVar(&f.tls, flagTLS, false,
		"use TLS, and trust the authorities of the system (environment: "+envTLS+")")
	for _, s := range f.settings() {
		flags.StringVar(s.value, s.flag, "", fmt.Sprintf("%s (environment: %s)", s.usage, s.env))
	}
	flags.BoolVar(&f.plainText, flagPlainText, false,
		"send the token without TLS to another machine too, for all on the way to read")
	if err := cmd.RegisterFlagCompletionFunc(flagServerName, cobra.NoFileCompletions); err != nil {
		panic(err) // a mistake in this package
	}
}

// Variables returns the names of the variables of the environment that Options looks at.
func Variables() []string {
	names := []string{envToken, envTLS}
	for _, s := range new(Flags).settings() {
		names = append(names, s.env)
	}
	return names
}

// Options returns the options of client.Dial that the flags ask for. Where a flag was not given, the environment
// speaks. flags are those to which Add has added its own, parsed.
func (f *Flags) Options(flags *pflag.FlagSet, getenv func(string) string) ([]client.Option, error) {
	given := *f // with what the environment says
	for _, s := range given.settings() {
		if !flags.Changed(s.flag) {
			*s.value = getenv(s.env)
		} else if *s.value == "" {
			return nil, fmt.Errorf("--%s is empty", s.flag)
		}
	}
	transport, err := given.transport(flags, getenv(envTLS))
	if err != nil {
		return nil, err
	}
	token, err := given.token(flags.Changed(flagTokenFile), getenv(envToken))
	if err != nil {
		return nil, err
	}
	f.certificateShown = len(transport) > 0 && given.files.Cert != ""
	return append(transport, token...), nil
}

// transport returns the options about TLS. env is the value of envTLS.
func (f *Flags) transport(flags *pflag.FlagSet, env string) ([]client.Option, error) {
	if flags.Changed(flagTLS) && !f.tls { // which the environment does not change
		for _, name := range []string{flagCA, flagCert, flagKey, flagServerName} {
			if flags.Changed(name) {
				return nil, fmt.Errorf("--%s=false and --%s exclude each other", flagTLS, name)
			}
		}
		return nil, nil
	}
	wanted := f.tls || f.files != client.TLSFiles{}
	if env != "" && !flags.Changed(flagTLS) {
		on, err := strconv.ParseBool(env)
		if err != nil {
			return nil, fmt.Errorf("%s %q: want true or false", envTLS, env)
		}
		wanted = wanted || on
	}
	switch {
	case f.files.Cert != "" && f.files.Key == "":
		return nil, fmt.Errorf("--%s %s: its key is missing: give it with --%s", flagCert, f.files.Cert, flagKey)
	case f.files.Cert == "" && f.files.Key != "":
		return nil, fmt.Errorf("--%s %s: its certificate is missing: give it with --%s", flagKey, f.files.Key, flagCert)
	case !wanted:
		return nil, nil
	}
	return []client.Option{client.WithTLSFiles(f.files)}, nil
}

// token returns the options about the token. env is the value of envToken.
func (f *Flags) token(byFlag bool, env string) ([]client.Option, error) {
	var opts []client.Option
	env = strings.TrimSpace(env)
	switch {
	case env != "" && f.tokenFile != "" && !byFlag:
		return nil, fmt.Errorf("%s and %s exclude each other", envToken, envTokenFile)
	case f.tokenFile != "":
		name := envTokenFile
		if byFlag {
			name = "--" + flagTokenFile
		}
		if _, err := os.Stat(f.tokenFile); err != nil { // it is not opened, since it may be a pipe
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		opts = append(opts, client.WithTokenFile(f.tokenFile))
	case env != "":
		opts = append(opts, client.WithToken(env))
	}
	if f.plainText {
		opts = append(opts, client.WithTokenInPlainText())
	}
	return opts, nil
}
