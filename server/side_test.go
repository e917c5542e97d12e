package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestServer_Pprof serves profiles to whoever may do everything, and to nobody where they are off.
func TestServer_Pprof(t *testing.T) {
	principals := newFiles(t).write("principals.yaml", []byte(fmt.Sprintf(`principals:
- name: admin
  tokens: [%q]
  grants: [{namespaces: ["**"], rights: [admin]}]
- name: tenant
  tokens: [%q]
  grants: [{namespaces: ["tenant/**"], rights: [read, write, history, admin]}]
`, hashOf("admin"), hashOf("tenant"))))
	const page = "/debug/pprof/goroutine?debug=1"
	tests := []struct {
		name  string
		cfg   Config
		token string
		code  int
	}{
		{"off", Config{}, "", http.StatusNotFound},
		{"no identity", Config{Pprof: true}, "", http.StatusOK},
		{"off for an administrator", Config{Principals: principals}, "admin", http.StatusNotFound},
		{"administrator", Config{Pprof: true, Principals: principals}, "admin", http.StatusOK},
		{"administrator of some namespaces", Config{Pprof: true, Principals: principals}, "tenant", http.StatusForbidden},
		{"stranger", Config{Pprof: true, Principals: principals}, "", http.StatusUnauthorized},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.HTTP = "127.0.0.1:0"
			r := start(t, tt.cfg)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTPAddr().String()+page, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.token != "" {
				req.Header.Set("Authorization", "Bearer "+tt.token)
			}
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if resp.StatusCode != tt.code {
				t.Errorf("got %s, want %d", resp.Status, tt.code)
			}
		})
	}
}

func TestConfig_PprofNeedsSidePort(t *testing.T) {
	err := Config{Pprof: true}.Validate()
	var got *ConfigError
	if !errors.As(err, &got) || got.Field != "Pprof" || !strings.Contains(got.Want, "no side port") {
		t.Errorf("got %v, want what to do about Pprof", err)
	}
	if err := (Config{Pprof: true, HTTP: "127.0.0.1:0"}).Validate(); err != nil {
		t.Error(err)
	}
}
