//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/locker-go/locker/internal/testbed"
)

// TestScriptsOnServers runs scripts that find in URLS one of each kind of server.
func TestScriptsOnServers(t *testing.T) {
	urls := []string{
		"redis://" + testbed.Redis(t).Addr(),
		"etcd://" + testbed.Etcd(t).Addr(),
		"zookeeper://" + testbed.ZooKeeper(t).Addr(),
		"redlock://" + testbed.Join(testbed.Redises(t, 5)) + "?first_use=true",
	}
	params := scriptParams()
	params.Dir = "testdata/servers"
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("URLS", strings.Join(urls, " "))
		return setup(env)
	}
	testscript.Run(t, params)
}
