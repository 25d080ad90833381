package backends

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// shownConfig is a configuration without its secrets.
type shownConfig struct {
	URL       string       `json:"url" yaml:"url"`
	Namespace string       `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	TTL       string       `json:"ttl,omitempty" yaml:"ttl,omitempty"`
	Wait      string       `json:"wait,omitempty" yaml:"wait,omitempty"`
	Routes    []shownRoute `json:"routes,omitempty" yaml:"routes,omitempty"`
}

type shownRoute struct {
	Keys      string `json:"keys" yaml:"keys"`
	URL       string `json:"url" yaml:"url"`
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
}

func (c Config) shown() shownConfig {
	s := shownConfig{URL: Redact(c.URL), Namespace: c.Namespace, TTL: showDuration(c.TTL), Wait: showDuration(c.Wait)}
	for _, r := range c.Routes {
		s.Routes = append(s.Routes, r.shown())
	}
	return s
}

func (r Route) shown() shownRoute { return shownRoute{r.Keys, Redact(r.URL), r.Namespace} }

func showDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func showJSON(shown any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(shown); err != nil {
		return err.Error() // texts alone have none
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// String returns the configuration as JSON without its secrets.
func (c Config) String() string { return showJSON(c.shown()) }

// Format writes String whatever the verb, so that none shows a secret.
func (c Config) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.String()) }

// MarshalJSON encodes the configuration without its secrets, for people to look at.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.shown()) }

// MarshalYAML does the same for packages that encode YAML.
func (c Config) MarshalYAML() (any, error) { return c.shown(), nil }

// String returns the route as JSON without its secrets.
func (r Route) String() string { return showJSON(r.shown()) }

// Format writes String whatever the verb, so that none shows a secret.
func (r Route) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.String()) }

// MarshalJSON encodes the route without its secrets, for people to look at.
func (r Route) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// MarshalYAML does the same for packages that encode YAML.
func (r Route) MarshalYAML() (any, error) { return r.shown(), nil }
