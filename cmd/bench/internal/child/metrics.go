package child

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// once connects anew for every request, so that no connection is left to a server that ends.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Scrape returns the metrics at a URL in the text format of Prometheus, by name, summed over their labels. Of a
// histogram there are the sum and the count, under its name with _sum and _count.
func Scrape(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	resp, err := once.Do(req)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: %s", url, resp.Status)
	}
	values, err := parseMetrics(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	return values, nil
}

func parseMetrics(r io.Reader) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			switch {
			case m.GetCounter() != nil:
				values[name] += m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				values[name] += m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				values[name+"_sum"] += m.GetHistogram().GetSampleSum()
				values[name+"_count"] += float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values, nil
}
