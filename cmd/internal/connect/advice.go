package connect

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
)

// troubles are the texts by which gRPC and crypto/tls say what is wrong with a connection, and what to check. The first
// that applies counts.
var troubles = []struct{ text, advice string }{
	{"read certificate authorities", "the file of --tls-ca can no longer be used"},
	{"read client certificate", "the files of --tls-cert and --tls-key can no longer be used"},
	{
		"certificate signed by unknown authority",
		"nobody who is trusted here has signed its certificate: give its authority with --tls-ca",
	},
	{
		"certificate has expired or is not yet valid",
		"its certificate has expired or is not valid yet: renew it, or set the clocks",
	},
	{
		"certificate is valid for",
		"its certificate is for another name: use that in --addr, or say with --tls-server-name which one to expect",
	},
	{
		"x509: ", // such as a certificate without any name
		"its certificate is not one for this address: check --addr, --tls-ca and --tls-server-name",
	},
	{
		"first record does not look like a TLS handshake",
		"it does not speak TLS there: leave the --tls flags out, or try another port",
	},
	{
		"remote error: tls: certificate required",
		"it wants a client certificate: give one with --tls-cert and --tls-key",
	},
	{
		"remote error: tls:",
		"it does not take the client certificate, or not this version of TLS: check --tls-cert and --tls-key",
	},
	{
		"authentication handshake failed",
		"the two sides do not agree on TLS: check --tls-ca, --tls-cert and --tls-key",
	},
	// It is the client that gives up, before the other side has said a word.
	{
		"use of closed network connection",
		"it took the connection and did not answer: it may hang, or be no memoryd; look at its log, or try another --addr",
	},
	// What is left of a connection that the other side has closed, in order of how soon it was noticed.
	{" preface", adviceClosed},
	{"broken pipe", adviceClosed},
	{"connection reset by peer", adviceClosed},
}

const (
	adviceClosed = "it closed the connection: it may have been stopped, want TLS (--tls-ca) or a client " +
		"certificate (--tls-cert and --tls-key), or be no memoryd"
	// Under TLS 1.3 a client certificate is refused after the handshake, and the reason may come too late.
	adviceClosedToCertificate = "it closed the connection: it may not accept the client certificate of --tls-cert, " +
		"which may have expired or be of an authority that it does not know, or it may have been stopped, or be no memoryd"
)

// Advice says what to check or do about the error of a call: that the service cannot be reached, or does not let the
// caller in. It is "" for all others, and for what the client refuses by itself, which says it. It goes by what Options
// found; about is what the call was about, such as "namespace default", "" where that is not known.
func (f *Flags) Advice(err error, about string) string {
	st := status.Convert(err)
	switch {
	case client.IsUnreachable(err):
		for _, trouble := range troubles {
			if !strings.Contains(st.Message(), trouble.text) {
				continue
			}
			if trouble.advice == adviceClosed && f.certificateShown {
				return adviceClosedToCertificate
			}
			return trouble.advice
		}
		return "start memoryd there, or say where it is with --addr or MEMORYCTL_ADDR"
	case client.Reason(err) == "":
		return ""
	case st.Code() == codes.Unauthenticated:
		return "give a valid token with MEMORYCTL_TOKEN or --token-file, or a certificate with --tls-cert and --tls-key"
	case st.Code() != codes.PermissionDenied:
		return ""
	case client.Reason(err) == "NAMESPACE_READ_ONLY" && about == "":
		return "ask whoever runs memoryd for the right to write there"
	case client.Reason(err) == "NAMESPACE_READ_ONLY":
		return "ask whoever runs memoryd for the right to write in " + about
	case about == "":
		return "ask whoever runs memoryd for a right to it"
	}
	return "ask whoever runs memoryd for a right in " + about
}
