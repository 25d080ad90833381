// Command locker runs programs under a distributed lock, takes and gives back locks
// for scripts, shows and breaks them, and checks backends. See locker --help.
package main

import "os"

func main() {
	if guarded() {
		return
	}
	os.Exit(execute(os.Args[1:]))
}
