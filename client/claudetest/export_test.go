package claudetest

import (
	"net"
	"net/http"
)

// Serve lets the fuzz test do without a network, which would make its coverage vary.
func (a *API) Serve(w http.ResponseWriter, r *http.Request) { a.serve(w, r) }

// WithListen listens with a function instead of net.Listen.
func WithListen(listen func(network, address string) (net.Listener, error)) Option {
	return func(o *options) { o.listen = listen }
}
