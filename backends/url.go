package backends

import (
	"net/url"
	"regexp"
	"strings"
)

const hidden = "xxxxx"

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]{0,31}$`)

func validScheme(s string) bool { return scheme.MatchString(s) }

// parse parses a URL whose host part may be a list with commas, which url.Parse
// refuses or takes depending on where a port stands. No error repeats anything of
// the URL: those of url.Parse do, and where a password was not percent-encoded they
// show it as a wrong port or a wrong escape.
func parse(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !validScheme(scheme) {
		return nil, invalid("a locker URL has the form scheme://..., such as file:///path/to/directory or redis://host:6379")
	}
	unparsable := invalid("the %s URL cannot be parsed (it is not shown, since a password may be in it); "+
		"in a user or password write / ? # @ %% as %%2F %%3F %%23 %%40 %%25, or use password_file=PATH", strings.ToLower(scheme))

	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.Contains(tail, "@") && (authority != "" || !strings.HasPrefix(tail, "/")) {
		return nil, unparsable // a password with a / ? or # in it would be taken for a path or a parameter
	}
	at := strings.LastIndexByte(authority, '@') + 1
	user, hosts := authority[:at], authority[at:]
	if !strings.Contains(hosts, ",") {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, unparsable
		}
		return u, nil
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if u, err := url.Parse(scheme + "://" + host); err != nil || u.Host == "" {
			return nil, unparsable
		}
	}
	u, err := url.Parse(scheme + "://" + user + "hosts" + tail)
	if err != nil {
		return nil, unparsable
	}
	u.Host = hosts
	return u, nil
}

// Redact returns the URL for logs, with xxxxx in place of what may be secret: the
// password (or the user name, where it stands alone), the values of all parameters
// but namespace and those that name a file, and the whole of a URL that cannot be
// parsed.
func Redact(rawURL string) string {
	u, err := parse(rawURL)
	if err != nil {
		if scheme, _, ok := strings.Cut(rawURL, "://"); ok && validScheme(scheme) {
			return strings.ToLower(scheme) + "://" + hidden
		}
		return hidden
	}
	if u.User != nil {
		if _, both := u.User.Password(); both {
			u.User = url.UserPassword(u.User.Username(), hidden)
		} else {
			u.User = url.User(hidden)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = redactQuery(u.RawQuery)
	}
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = hidden, ""
	}
	return u.String()
}

func redactQuery(raw string) string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return hidden
	}
	for name, values := range query {
		if name == "namespace" || strings.HasSuffix(name, "_file") {
			continue
		}
		for i := range values {
			values[i] = hidden
		}
	}
	return query.Encode()
}
