// Command locker runs programs under a distributed lock, takes and gives back locks
// for scripts, shows and breaks them, and checks backends. See locker --help.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	if guarded() {
		return
	}
	logging.Disable() // what the driver prints of its own is in the errors
	os.Exit(execute(os.Args[1:]))
}
