package ops

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the side port, so that a slow or broken client holds nothing for long.
const (
	readHeaderTimeout = 5 * time.Second // and of a TLS handshake
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 5 * time.Second // whoever asks once a minute connects anew
	maxHeaderBytes    = 16 << 10
)

// Options is what the side port is made of.
type Options struct {
	Metrics *Metrics
	// Ready tells why calls are not served; nil where they are.
	Ready func() error
	// Authenticate returns an error for a request whose sender is not known, and else a context that knows it, which
	// becomes that of the request. All but health asks it. nil is open.
	Authenticate func(*http.Request) (context.Context, error)
	// MayProfile tells whether the sender of a request may read profiles of the process. nil: there are none to read.
	MayProfile func(*http.Request) bool
	// ConnContext is that of http.Server.
	ConnContext func(context.Context, net.Conn) context.Context
	// TLS is for ServeTLS of the server; nil where it has none.
	TLS *tls.Config
	// Logger gets at debug what goes wrong with connections.
	Logger *slog.Logger
}

// NewServer returns the server of the side port.
func NewServer(opts Options) *http.Server {
	return &http.Server{
		Handler:           newHandler(opts),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       opts.ConnContext,
		TLSConfig:         opts.TLS,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
}

func newHandler(opts Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		lastOnConnection(w)
		answer(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		lastOnConnection(w)
		if err := opts.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		answer(w, http.StatusOK, "ok\n")
	})
	known := http.NewServeMux() // for those who are known
	known.Handle("GET /metrics", promhttp.HandlerFor(opts.Metrics.registry, promhttp.HandlerOpts{}))
	if opts.MayProfile != nil {
		known.Handle("GET /debug/pprof/", permitted(opts.MayProfile, newProfiles()))
	}
	mux.Handle("/", authenticated(opts.Authenticate, known))
	return mux
}

// lastOnConnection ends the connection after the answer: whoever is not known is to keep none from the probes.
func lastOnConnection(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

// authenticated asks who sends a request before it is answered, whatever it is for.
func authenticated(authenticate func(*http.Request) (context.Context, error), h http.Handler) http.Handler {
	if authenticate == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := authenticate(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, "no valid credential; send a bearer token or show a client certificate\n")
			return
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // The client is gone where this fails.
}
