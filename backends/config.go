package backends

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/locker-go/locker"
)

// Config says where the locks of which keys are kept. Its form in YAML is
//
//	url: redis://cache:6379/0?password_file=/run/secrets/redis
//	namespace: billing       # default for all URLs that do not name one
//	ttl: 30s                 # default 30s, from 10ms
//	wait: 1m                 # how long to wait for a lock; default: without limit
//	routes:
//	  - keys: invoice/*      # the first route that matches a key is taken
//	    url: etcd://e1:2379,e2:2379,e3:2379
//	  - keys: leader
//	    url: etcd://e1:2379,e2:2379,e3:2379
//	    namespace: elections
//
// and the same in JSON. Only url is required. What is unknown, given twice, of the
// wrong type or out of range is an error that says what is allowed; durations need a
// unit. Anchors, aliases and tags of YAML are not taken.
//
// [LoadConfig] reads a file. As a part of a larger configuration a Config decodes
// itself, by encoding/json and by YAML packages that take an UnmarshalYAML method with
// a function, just as strictly.
//
// A Config has passwords in it if its URLs do. Printed with the fmt package, logged
// with slog, and encoded as JSON or YAML, it shows its URLs as [Redact] returns them,
// and so does a Route; their fields show all.
type Config struct {
	// URL names the backend of all keys that no route matches. Required.
	URL string

	// Namespace is the namespace on every backend whose URL has no namespace
	// parameter. If it is empty that is left to the backend.
	Namespace string

	// TTL and Wait are those of [locker.Options]. Zero is the default.
	TTL, Wait time.Duration

	// Routes send keys to other backends. The first that matches a key counts.
	Routes []Route
}

// Route sends the keys that match a pattern to a backend.
//
// Programs that are to exclude each other must send a key to the same backend. If a
// running fleet is given other routes, then, until all of it has them, two holders at
// once are possible.
type Route struct {
	// Keys is a pattern in which each * stands for any text, also an empty one and
	// one with slashes; all else stands for itself. A route must leave keys to those
	// after it: a pattern that matches every key belongs into Config.URL, and one
	// all of whose keys an earlier one matches is an error.
	Keys string

	// URL names the backend. Required.
	URL string

	// Namespace is the namespace there, instead of Config.Namespace.
	Namespace string
}

// problem is what is wrong with a field.
type problem struct {
	field string
	err   error
}

// problems returns all that is wrong with c and can be told without opening it.
func (c Config) problems() []problem {
	var all []problem
	check := func(field string, err error) {
		if err != nil {
			all = append(all, problem{field, err})
		}
	}
	check("url", checkURL(c.URL))
	check("namespace", checkNamespace(c.URL, c.Namespace))
	if c.TTL != 0 {
		check("ttl", locker.ValidateTTL(c.TTL))
	}
	if c.Wait != 0 {
		check("wait", checkWait(c.Wait))
	}
	for i, r := range c.Routes {
		name := fmt.Sprintf("routes[%d]", i)
		check(name+".keys", c.checkKeys(i))
		check(name+".url", checkURL(r.URL))
		check(name+".namespace", checkNamespace(r.URL, r.Namespace))
	}
	return all
}

func checkURL(rawURL string) error {
	if rawURL == "" {
		return invalid("the URL is missing: write one such as file:///path/to/directory or redis://host:6379")
	}
	_, err := parse(rawURL)
	return err
}

func checkNamespace(rawURL, namespace string) error {
	if namespace == "" {
		return nil
	}
	if err := locker.ValidateNamespace(namespace); err != nil {
		return invalid("it must have at most 128 characters of A-Z a-z 0-9 . _ -")
	}
	if u, err := parse(rawURL); err == nil && hasNamespace(u) {
		return invalid("the URL beside it has a namespace already")
	}
	return nil
}

func hasNamespace(u *url.URL) bool {
	query, err := url.ParseQuery(u.RawQuery)
	return err == nil && query.Has("namespace") // an error is for the opener to tell
}

func checkWait(wait time.Duration) error {
	if wait <= 0 || wait > locker.MaxTTL {
		return invalid("it must be more than 0s and at most %s; leave it out to wait without limit", locker.MaxTTL)
	}
	return nil
}

// checkKeys checks the pattern of a route.
func (c Config) checkKeys(route int) error {
	keys := c.Routes[route].Keys
	if keys == "" {
		return invalid("the pattern is missing: write a key, or a pattern such as invoice/*")
	}
	if err := locker.ValidateKey(keys); err != nil {
		return fmt.Errorf("no key matches it: %w", err)
	}
	p := parsePattern(keys)
	if p.covers(beginning("")) {
		return invalid("it matches every key: put its URL at the top, where no route is needed")
	}
	for i, earlier := range c.Routes[:route] {
		if earlier.Keys != "" && parsePattern(earlier.Keys).covers(p) {
			return invalid("routes[%d] before it matches all its keys: put it first, or leave it out", i)
		}
	}
	return nil
}

// validate returns all that is wrong with c, as far as it can be told without opening it.
func (c Config) validate() error {
	var errs []error
	for _, p := range c.problems() {
		errs = append(errs, c.wrong(p.field, p.err))
	}
	return errors.Join(errs...)
}

// wrong returns an error about a field. Of a URL that stands alone it says no more, since
// it may not have come from a file.
func (c Config) wrong(field string, err error) error {
	if field == "url" && len(c.Routes) == 0 {
		return err
	}
	return fmt.Errorf("configuration: %s: %w", field, err)
}
