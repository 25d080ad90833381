// Package params reads the parameters of a backend's URL strictly: what is unknown,
// given twice, of the wrong type or out of range is an error that says what is
// allowed. No message repeats a value of a secret parameter or the URL itself,
// which may have a password in it.
package params

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

// Params are the parameters of one URL. Each method declares a parameter, and
// returns its value, or the default if it is absent or wrong. Err tells what was
// wrong.
type Params struct {
	scheme string
	url    *url.URL
	query  url.Values
	known  []string
	errs   []error
}

// Of returns the parameters of u.
func Of(u *url.URL) *Params {
	p := &Params{scheme: u.Scheme, url: u}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		p.Failf("the part after the question mark must be of the form name=value&name=value, percent-encoded")
	}
	p.query = query
	return p
}

// Failf records an error about the URL. The format must not take a secret.
func (p *Params) Failf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%w: %s URL: "+format, append([]any{locker.ErrInvalid, p.scheme}, args...)...))
}

// value returns the value of a parameter that was given, and declares it.
func (p *Params) value(name string) (string, bool) {
	p.known = append(p.known, name)
	values := p.query[name]
	if len(values) == 0 {
		return "", false
	}
	if len(values) > 1 {
		p.Failf("the parameter %s is given %d times", name, len(values))
		return "", false
	}
	return values[0], true
}

// String returns a text.
func (p *Params) String(name, def string) string {
	if v, ok := p.value(name); ok {
		return v
	}
	return def
}

// OneOf returns one of the allowed words, of which the first is the default.
func (p *Params) OneOf(name string, allowed ...string) string {
	v, ok := p.value(name)
	if !ok {
		return allowed[0]
	}
	if !slices.Contains(allowed, v) {
		p.Failf("%s=%q: must be one of %s", name, v, strings.Join(allowed, ", "))
		return allowed[0]
	}
	return v
}

// Bool returns true or false.
func (p *Params) Bool(name string, def bool) bool {
	return p.OneOf(name, strconv.FormatBool(def), strconv.FormatBool(!def)) == "true"
}

// Int returns a whole number from lo to hi.
func (p *Params) Int(name string, def, lo, hi int) int {
	v, ok := p.value(name)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		p.Failf("%s=%q: must be a whole number from %d to %d", name, v, lo, hi)
		return def
	}
	return n
}

// Duration returns a duration from lo to hi, written like 300ms, 1.5s or 2h.
func (p *Params) Duration(name string, def, lo, hi time.Duration) time.Duration {
	v, ok := p.value(name)
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < lo || d > hi {
		p.Failf("%s=%q: must be a duration such as 300ms or 2h, from %s to %s", name, v, lo, hi)
		return def
	}
	return d
}

// Secret returns the content of the file that the parameter NAME_file names, less
// one line end, or def if there is none.
func (p *Params) Secret(name, def string) string {
	path, ok := p.value(name + "_file")
	if !ok {
		return def
	}
	if def != "" {
		p.Failf("a %s is given both by itself and by %s_file", name, name)
		return def
	}
	b, err := os.ReadFile(path)
	if err != nil {
		p.Failf("%s_file: %w", name, err)
		return def
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
}

// Namespace returns the parameter that every scheme has.
func (p *Params) Namespace() string {
	const def = "locker"
	v := p.String("namespace", def)
	if err := locker.ValidateNamespace(v); err != nil {
		p.errs = append(p.errs, err)
		return def
	}
	return v
}

// NoHost refuses a host, and user information.
func (p *Params) NoHost() {
	if p.url.Host != "" || p.url.User != nil {
		p.Failf("it takes no host: write %s:///... or %s://?...", p.scheme, p.scheme)
	}
}

// NoPath refuses a path.
func (p *Params) NoPath() {
	if strings.Trim(p.url.Path, "/") != "" || p.url.Opaque != "" {
		p.Failf("it takes no path")
	}
}

// Err returns all that was wrong. It must be called after every parameter was
// declared, since what was not declared is unknown.
func (p *Params) Err() error {
	if p.url.Fragment != "" {
		p.Failf("it takes no fragment: write # as %%23")
	}
	slices.Sort(p.known)
	for name := range p.query {
		if !slices.Contains(p.known, name) {
			p.Failf("unknown parameter %q: known are %s", name, strings.Join(p.known, ", "))
		}
	}
	return errors.Join(p.errs...)
}
