package validate

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// scrape gets the metrics of a service as Prometheus does.
func scrape(t *testing.T, s *service, serverName string, ca, token []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("no authority in %s", ca)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName}}}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		token string
		want  int
	}{{"Bearer " + string(token), http.StatusOK}, {"", http.StatusUnauthorized}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.http+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", tt.token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != tt.want {
			t.Fatalf("metrics: got %s, %v, want %d", resp.Status, err, tt.want)
		}
		if has := strings.Contains(string(body), "memoryd_build_info"); has != (tt.want == http.StatusOK) {
			t.Errorf("metrics with %d: got %s", tt.want, body)
		}
	}
}

// scrapeConfig is what the compose file's Prometheus is told of memoryd.
type scrapeConfig struct {
	JobName       string `json:"job_name"`
	Scheme        string `json:"scheme"`
	Authorization struct {
		CredentialsFile string `json:"credentials_file"`
	} `json:"authorization"`
	TLSConfig struct {
		CAFile string `json:"ca_file"`
	} `json:"tls_config"`
	StaticConfigs []struct {
		Targets []string `json:"targets"`
	} `json:"static_configs"`
}

// readPrometheus reads prometheus.yml, and checks that what it names is mounted.
func readPrometheus(t *testing.T, files Files, container Container) scrapeConfig {
	t.Helper()
	var config struct {
		Global struct {
			ScrapeInterval     string `json:"scrape_interval"`
			EvaluationInterval string `json:"evaluation_interval"`
		} `json:"global"`
		RuleFiles     []string       `json:"rule_files"`
		ScrapeConfigs []scrapeConfig `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(files["compose/prometheus.yml"]), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.ScrapeConfigs) != 1 || config.ScrapeConfigs[0].Scheme != "https" ||
		config.ScrapeConfigs[0].JobName != "memoryd" { // as the alert rules have it
		t.Fatalf("got %+v, want one job called memoryd, over https", config)
	}
	memoryd := config.ScrapeConfigs[0]
	for _, name := range append(config.RuleFiles, memoryd.TLSConfig.CAFile, memoryd.Authorization.CredentialsFile) {
		if m, ok := container.mountOf(name); !ok || !m.ReadOnly {
			t.Errorf("%s is not mounted read-only", name)
		}
	}
	m, _ := container.mountOf(config.RuleFiles[0])
	if !anyMatches(files, strings.TrimPrefix(m.Volume, "/")+strings.TrimPrefix(config.RuleFiles[0], m.Path)) {
		t.Errorf("%s is no file", config.RuleFiles[0])
	}
	return memoryd
}

func anyMatches(files Files, pattern string) bool {
	for name := range files {
		if ok, err := filepath.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}
