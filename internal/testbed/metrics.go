package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Metrics are what a server counts, by series: a name, often with labels.
type Metrics struct {
	t      testing.TB
	series map[string]float64
}

// ReadMetrics reads /metrics of a server, over TLS if there is a configuration.
func ReadMetrics(t testing.TB, s *Server, config *tls.Config) Metrics {
	t.Helper()
	series, err := readMetrics(t.Context(), s.Addr(), config)
	if err != nil {
		t.Fatalf("%s: read its metrics: %v", s, err)
	}
	return Metrics{t: t, series: series}
}

func readMetrics(ctx context.Context, addr string, config *tls.Config) (map[string]float64, error) {
	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return parseMetrics(string(text))
}

// parseMetrics reads the text format of Prometheus, without the times that etcd and
// others do not send.
func parseMetrics(text string) (map[string]float64, error) {
	series := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		space := max(strings.LastIndexByte(line, ' '), 0)
		value, err := strconv.ParseFloat(strings.TrimSpace(line[space:]), 64)
		if err != nil {
			return nil, fmt.Errorf("in %q: %w", line, err)
		}
		series[line[:space]] = value
	}
	return series, nil
}

// Sum adds up the series of the name that have all the labels, such as
// grpc_method="Txn". It fails the test if there is no series of the name.
func (m Metrics) Sum(name string, labels ...string) float64 {
	m.t.Helper()
	sum, known := 0.0, false
	for series, value := range m.series {
		base, of, _ := strings.Cut(series, "{")
		if base != name {
			continue
		}
		known = true
		if !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(of, label) }) {
			sum += value
		}
	}
	if !known {
		m.t.Fatalf("the server has no metric %s", name)
	}
	return sum
}
