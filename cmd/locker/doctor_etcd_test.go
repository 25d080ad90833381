//go:build unix

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/locker-go/locker/internal/testbed"
)

func TestEtcdScripts(t *testing.T) {
	server := testbed.Etcd(t, "--quota-backend-bytes=1048576")
	params := scriptParams()
	params.Dir = "testdata/etcd"
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("LOCKER_URL", "etcd://"+server.Addr())
		return setup(env)
	}
	params.Cmds["kill-server"] = func(*testscript.TestScript, bool, []string) { server.Kill() }
	params.Cmds["fill"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		client := testbed.EtcdClient(t, nil, server.Addr())
		var err error
		for err == nil {
			_, err = client.Put(t.Context(), "filler", strings.Repeat("x", 64<<10))
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			ts.Fatalf("%v", err)
		}
	}
	testscript.Run(t, params)
}
