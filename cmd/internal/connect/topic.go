package connect

import "github.com/spf13/cobra"

const topicText = `How to reach memoryd, and how to say who calls, by flag or by environment:

  --addr             MEMORYCTL_ADDR             HOST:PORT or unix:///path
  --token-file       MEMORYCTL_TOKEN_FILE       file with the token
                     MEMORYCTL_TOKEN            the token itself
  --tls              MEMORYCTL_TLS              trust the system's authorities
  --tls-ca           MEMORYCTL_TLS_CA           PEM file: trust these instead
  --tls-cert         MEMORYCTL_TLS_CERT         PEM file: client certificate
  --tls-key          MEMORYCTL_TLS_KEY          PEM file: its key
  --tls-server-name  MEMORYCTL_TLS_SERVER_NAME  name instead of that in --addr

A flag counts more than the environment. Any of the --tls flags switches TLS on;
--tls=false switches it off, whatever the environment says.

There is no flag for the token itself: everybody on the machine can read command
lines. Files are read again, tokens within a second and certificates for the
next connection, so that they can be renewed while a command runs.

A token is sent over TLS, over unix sockets and within the machine. Without TLS
it goes to no other machine, unless --token-in-plain-text says so: for networks
that encrypt underneath, such as a service mesh.`

// Topic is the help about all this: `PROGRAM help connection`.
func Topic() *cobra.Command {
	return &cobra.Command{Use: "connection", Short: "How to reach memoryd: addresses, tokens and TLS", Long: topicText}
}
