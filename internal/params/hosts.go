package params

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Hosts returns the addresses of a URL's host part, "h1:p1,h2,[::1]:p3", with the
// default port where one is missing. An empty list is localhost. The error repeats
// nothing of the text, in which a misplaced password may stand.
func Hosts(list, port string) ([]string, error) {
	if list == "" {
		return []string{net.JoinHostPort("localhost", port)}, nil
	}
	var addrs []string
	for part := range strings.SplitSeq(list, ",") {
		host, p, err := net.SplitHostPort(part)
		if err != nil {
			host, p = strings.TrimSuffix(strings.TrimPrefix(part, "["), "]"), port
		}
		if p == "" {
			p = port
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if host == "" || strings.ContainsAny(host, "[]@/ ") || err != nil || n == 0 {
			return nil, errors.New("the hosts must be of the form host:port,host:port, each port from 1 to 65535")
		}
		if strings.Contains(host, ":") && net.ParseIP(strings.SplitN(host, "%", 2)[0]) == nil {
			return nil, errors.New("the hosts must be of the form host:port,host:port, an IPv6 address in brackets")
		}
		addrs = append(addrs, net.JoinHostPort(host, p))
	}
	return addrs, nil
}
