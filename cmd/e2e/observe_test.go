package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/otlptest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const (
	rulesFile     = "../../deploy/prometheus/memoryd.rules.yml"
	dashboardFile = "../../deploy/grafana/memoryd.json"
	observability = "../../docs/observability.md"
)

// series are the metrics of a service as Prometheus stores them: by name, by label, the values that were seen.
type series map[string]map[string]map[string]bool

func (s series) add(name string, labels []*dto.LabelPair, more ...string) {
	if s[name] == nil {
		// Prometheus adds these two, whose values depend on where the service runs.
		s[name] = map[string]map[string]bool{"job": nil, "instance": nil}
	}
	for _, l := range labels {
		if s[name][l.GetName()] == nil {
			s[name][l.GetName()] = map[string]bool{}
		}
		s[name][l.GetName()][l.GetValue()] = true
	}
	for _, label := range more {
		s[name][label] = nil
	}
}

// sidePort returns the address of the side port.
func (d *daemon) sidePort(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(` http=(\S+)`).FindStringSubmatch(d.ready)
	if match == nil {
		t.Fatalf("no side port in %q", d.ready)
	}
	return "http://" + match[1]
}

// httpGet gets a page of the side port.
func (d *daemon) httpGet(t *testing.T, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.sidePort(t)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}

// scrape reads all that /metrics has.
func (d *daemon) scrape(t *testing.T) series {
	t.Helper()
	_, body := d.httpGet(t, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all := series{"up": {"job": nil, "instance": nil}} // of Prometheus itself
	for name, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				all.add(name+"_bucket", m.GetLabel(), "le")
				all.add(name+"_sum", m.GetLabel())
				all.add(name+"_count", m.GetLabel())
			case dto.MetricType_SUMMARY:
				all.add(name, m.GetLabel(), "quantile")
				all.add(name+"_sum", m.GetLabel())
				all.add(name+"_count", m.GetLabel())
			default:
				all.add(name, m.GetLabel())
			}
		}
	}
	return all
}

// observed runs a service with all that there are metrics of, and has it do a little of everything.
func observed(t *testing.T) series {
	t.Helper()
	dir := t.TempDir()
	keyset := filepath.Join(dir, "keyset.json")
	if out, err := exec.Command(binary("memoryd"), "keyset", "new", "--encryption-keyset", keyset).CombinedOutput(); err != nil {
		t.Fatalf("memoryd keyset new: %v\n%s", err, out)
	}
	sockets := socketDir(t)
	d := &daemon{data: filepath.Join(dir, "data"), target: "unix://" + filepath.Join(sockets, "m.sock")}
	t.Cleanup(func() { d.stop(t) })
	d.serve(t, "--http", "127.0.0.1:0", "--encryption-keyset", keyset, "--audit-log", filepath.Join(dir, "audit.jsonl"),
		"--backup-dir", filepath.Join(dir, "backups"), "--backup-every", "1h")
	token := "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5" // looks like one, and is none
	d.ctl(t, nil, "create", "/memories/a.md", token)
	d.ctl(t, nil, "view", "/memories/none.md")
	d.ctl(t, strings.NewReader(`{"command":"view","path":"/memories/a.md","limit":1}`), "tool") // The limit is put right.
	return d.scrape(t)
}

// promQL splits an expression into what matters here. Ranges and offsets are left out.
var promQL = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|offset\s+\w+|[a-zA-Z_:$][\w:]*|[0-9][0-9.a-z]*|=~|!~|!=|[^\s]`)

// words of PromQL that can stand where a metric can.
var (
	aggregations = []string{"sum", "min", "max", "avg", "count", "group", "topk", "bottomk", "quantile", "stddev", "count_values"}
	groupings    = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators    = []string{"and", "or", "unless", "bool"}
)

// check finds metrics, labels and values in an expression that a service does not have. It knows as much of PromQL as
// the rules and the dashboard use; promtool reads them too, where it is installed.
func (s series) check(expression string) (metrics int, problems []string) {
	tokens := promQL.FindAllString(expression, -1)
	next := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	identifier := regexp.MustCompile(`^[a-zA-Z_:]`)
	var grouped []string
	labels := map[string]bool{}
	for i := 0; i < len(tokens); i++ {
		token := tokens[i]
		switch {
		case !identifier.MatchString(token), strings.HasPrefix(token, "offset "), slices.Contains(operators, token):
		case slices.Contains(groupings, token):
			for i += 2; next(i) != ")" && next(i) != ""; i++ {
				if identifier.MatchString(tokens[i]) {
					grouped = append(grouped, tokens[i])
				}
			}
		case slices.Contains(aggregations, token), next(i+1) == "(":
		default:
			metrics++
			known, ok := s[token]
			if !ok {
				problems = append(problems, "there is no metric "+token)
			}
			for label := range known {
				labels[label] = true
			}
			if next(i+1) != "{" {
				continue
			}
			for i += 2; next(i) != "}" && next(i) != ""; i++ {
				if !identifier.MatchString(tokens[i]) {
					continue
				}
				values, ok := known[tokens[i]]
				value := strings.Trim(next(i+2), `"`)
				if !ok {
					problems = append(problems, token+" has no label "+tokens[i])
				} else if next(i+1) == "=" && len(values) > 0 && !values[value] {
					problems = append(problems, fmt.Sprintf("%s has no %s=%q", token, tokens[i], value))
				}
				i += 2
			}
		}
	}
	for _, label := range grouped {
		if !labels[label] {
			problems = append(problems, "nothing in it has a label "+label)
		}
	}
	return metrics, problems
}

func TestObserve_Check(t *testing.T) {
	s := series{}
	s.add("calls_total", []*dto.LabelPair{{Name: new("code"), Value: new("OK")}})
	s.add("took_bucket", nil, "le")
	tests := []struct {
		expression string
		metrics    int
		problems   []string
	}{
		{`calls_total`, 1, nil},
		{`sum by (code) (rate(calls_total{code="OK", job="$job"}[$__rate_interval])) > 0.01`, 1, nil},
		{`sum(rate(calls_total{code=~"x|y"}[5m])) by (code)`, 1, nil},
		{`histogram_quantile(0.99, sum by (instance, le) (rate(took_bucket[5m])))`, 1, nil},
		{`calls_total unless on (job) calls_total offset 1h`, 2, nil},
		{`time() - call_total`, 1, []string{"there is no metric call_total"}},
		{`calls_total{kode="OK"}`, 1, []string{"calls_total has no label kode"}},
		{`calls_total{code="Ok"}`, 1, []string{`calls_total has no code="Ok"`}},
		{`sum by (method) (calls_total)`, 1, []string{"nothing in it has a label method"}},
	}
	for _, tt := range tests {
		metrics, problems := s.check(tt.expression)
		if metrics != tt.metrics || !slices.Equal(problems, tt.problems) {
			t.Errorf("%s: got %d metrics, %q; want %d, %q", tt.expression, metrics, problems, tt.metrics, tt.problems)
		}
	}
}

// alert is a rule of rulesFile.
type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// panel is a panel of dashboardFile.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

func readPanels(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// TestObserve_Names checks that a running service has every metric, label and value that the alerts and the dashboard
// ask for.
func TestObserve_Names(t *testing.T) {
	service := observed(t)
	checked := 0
	check := func(where, expression string) {
		t.Helper()
		n, problems := service.check(expression)
		checked += n
		for _, p := range problems {
			t.Errorf("%s: %s\n%s", where, p, expression)
		}
	}
	for _, a := range readAlerts(t) {
		check(a.Alert, a.Expr)
	}
	for _, p := range readPanels(t) {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	if checked < 80 {
		t.Errorf("only %d metrics were found in %d series", checked, len(service))
	}
}

// TestObserve_Alerts checks that whoever is called in the night is told what to do.
func TestObserve_Alerts(t *testing.T) {
	content, err := os.ReadFile(observability)
	if err != nil {
		t.Fatal(err)
	}
	runbooks := map[string]bool{} // by name, whether there is an alert
	for _, match := range regexp.MustCompile(`(?m)^### (Memoryd\w+)$`).FindAllSubmatch(content, -1) {
		runbooks[string(match[1])] = false
	}
	for _, a := range readAlerts(t) {
		if _, ok := runbooks[a.Alert]; !ok {
			t.Errorf("docs/observability.md has no heading %s", a.Alert)
		}
		runbooks[a.Alert] = true
		if want := "docs/observability.md#" + strings.ToLower(a.Alert); !strings.HasSuffix(a.Annotations["runbook_url"], want) {
			t.Errorf("%s: got the runbook %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.For == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks for, a summary or a description", a.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: got the severity %q", a.Alert, a.Labels["severity"])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(runbooks)) {
		if !runbooks[name] {
			t.Errorf("docs/observability.md has %s, which is no alert", name)
		}
	}
}

// TestObserve_Dashboard checks what Grafana takes without a word: panels under one id, on one place, or with nothing in
// them.
func TestObserve_Dashboard(t *testing.T) {
	ids, titles, places := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	panels := readPanels(t)
	for _, p := range panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("%s: the id %d is not its own", p.Title, p.ID)
		}
		if p.Title == "" || titles[p.Title] {
			t.Errorf("panel %d: the title %q is not its own", p.ID, p.Title)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is beyond the right edge", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := places[[2]int{x, y}]; ok {
					t.Fatalf("%s is on the place of %s", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
	}
	if len(panels) < 30 {
		t.Errorf("got %d panels", len(panels))
	}
}

// TestObserve_Promtool has the tool of Prometheus read every expression, and run the tests of the alerts.
func TestObserve_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("NOT RUN: %v; it is in the package prometheus of Debian", err)
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$job", "memoryd")
	for _, p := range readPanels(t) {
		for i, target := range p.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel:%d:%d", p.ID, i), grafana.Replace(target.Expr)})
		}
	}
	content, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dashboard := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(dashboard, content, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := strings.TrimSuffix(rulesFile, ".yml") + ".test.yml"
	for _, args := range [][]string{{"check", "rules", rulesFile, dashboard}, {"test", "rules", tests}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestObserve_Traces has the service, as it is built, continue the trace of its caller and export it with its metrics.
func TestObserve_Traces(t *testing.T) {
	collector := otlptest.Start(t)
	dir := socketDir(t)
	d := &daemon{data: filepath.Join(dir, "data"), target: "unix://" + filepath.Join(dir, "m.sock")}
	for name, value := range collector.Env() {
		d.env = append(d.env, name+"="+value)
	}
	d.env = append(d.env, "OTEL_SERVICE_NAME=memory-of-acme")
	t.Cleanup(func() { d.stop(t) })
	d.serve(t)
	if got := d.ctl(t, nil, "-n", "acme/a", "create", "/memories/a.md", "a"); got.status != 0 {
		t.Fatalf("create: got %+v", got)
	}
	span, process := collector.Span(t, "memoryd.v1.MemoryService/Create")
	attrs := otlptest.Attributes(span.GetAttributes())
	if attrs["memoryd.namespace"] != "acme/a" || attrs["memoryd.reason"] != "ok" || process["service.name"] != "memory-of-acme" {
		t.Errorf("got %v of %v", attrs, process)
	}
	if strings.Contains(span.String(), "a.md") {
		t.Errorf("the span has a path: %v", span)
	}
	if metric, _ := collector.Metric(t, "memoryd_store_commit_updates"); metric.GetHistogram() == nil {
		t.Errorf("got %v, want a histogram", metric)
	}
}

// TestObserve_NoCollector serves and stops as ever where nothing takes what it exports.
func TestObserve_NoCollector(t *testing.T) {
	dir := socketDir(t)
	d := &daemon{data: filepath.Join(dir, "data"), target: "unix://" + filepath.Join(dir, "m.sock")}
	d.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_EXPORTER_OTLP_TIMEOUT=100"}
	t.Cleanup(func() { d.stop(t) })
	d.serve(t)
	c := d.dial(t)
	for range 50 {
		if _, err := c.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	d.stop(t) // It checks that the process ends well.
	if !strings.Contains(d.log.String(), "cannot export telemetry") {
		t.Errorf("the log does not say that nothing can be exported:\n%s", d.log)
	}
}

// TestObserve_CollectorStuck stops where the collector takes connections and answers nothing: what is left is given up.
func TestObserve_CollectorStuck(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := socketDir(t)
	d := &daemon{data: filepath.Join(dir, "data"), target: "unix://" + filepath.Join(dir, "m.sock")}
	d.env = []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_TIMEOUT=600000",
		"OTEL_BSP_EXPORT_TIMEOUT=600000", "OTEL_METRIC_EXPORT_TIMEOUT=600000",
	}
	t.Cleanup(func() { d.stop(t) })
	d.serve(t)
	if got := d.ctl(t, nil, "create", "/memories/a.md", "a"); got.status != 0 {
		t.Errorf("create: got %+v", got)
	}
	d.stop(t) // Without an end to its patience it would take 10 minutes.
	for _, want := range []string{"the last traces were not exported", "the last metrics were not exported"} {
		if !strings.Contains(d.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, d.log)
		}
	}
}

func TestObserve_Pprof(t *testing.T) {
	d := start(t, "--http", "127.0.0.1:0", "--pprof")
	for path, want := range map[string]string{
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
		"/debug/pprof/profile?seconds=1": "\x1f\x8b", // gzip
	} {
		if status, body := d.httpGet(t, path); status != http.StatusOK || !strings.HasPrefix(body, want) {
			t.Errorf("%s: got %d and %.50q", path, status, body)
		}
	}
	if status, _ := start(t, "--http", "127.0.0.1:0").httpGet(t, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("without --pprof: got %d, want %d", status, http.StatusNotFound)
	}
}
