//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/locker-go/locker/internal/testbed"
)

// TestRedisScripts runs scripts that have a Redis of their own each, with a password.
func TestRedisScripts(t *testing.T) {
	const password = "c4n4ry"
	scripts, err := filepath.Glob("testdata/redis/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			t.Parallel()
			server := testbed.Redis(t, "--requirepass", password)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password})
			t.Cleanup(func() { client.Close() })
			params := scriptParams()
			params.Files = []string{script}
			setup := params.Setup
			params.Setup = func(env *testscript.Env) error {
				env.Setenv("ADDR", server.Addr())
				env.Setenv("LOCKER_URL", "redis://:"+password+"@"+server.Addr())
				return setup(env)
			}
			params.Cmds["pause"] = func(*testscript.TestScript, bool, []string) { server.Pause() }
			params.Cmds["resume"] = func(*testscript.TestScript, bool, []string) { server.Resume() }
			params.Cmds["kill-server"] = func(*testscript.TestScript, bool, []string) { server.Kill() }
			params.Cmds["redis"] = func(ts *testscript.TestScript, _ bool, args []string) {
				command := []any{}
				for _, arg := range args {
					command = append(command, arg)
				}
				ts.Check(client.Do(t.Context(), command...).Err())
			}
			testscript.Run(t, params)
		})
	}
}
