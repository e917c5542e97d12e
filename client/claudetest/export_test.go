package claudetest

import "net/http"

// Serve lets the fuzz test do without a network, which would make its coverage vary.
func (a *API) Serve(w http.ResponseWriter, r *http.Request) { a.serve(w, r) }
