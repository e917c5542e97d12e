package ops

import (
	"net/http"
	"net/http/pprof" // It also registers itself with http.DefaultServeMux, which nothing serves.
)

// newProfiles serves the profiles of the process, which end within what their requests ask for: package pprof moves the
// deadline of the answer by as much. The command line is not among them.
func newProfiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// permitted refuses requests whose sender may not make them.
func permitted(may func(*http.Request) bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !may(r) {
			answer(w, http.StatusForbidden, "not permitted; profiles need the right admin in all namespaces\n")
			return
		}
		h.ServeHTTP(w, r)
	})
}
