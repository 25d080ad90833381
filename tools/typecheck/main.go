// Command typecheck says whether all packages of a module, and their tests, compile for
// other operating systems:
//
//	typecheck darwin windows
//
// It checks types from source, those of what they import too, which takes a tenth of
// the time that compiling takes.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		loaded, err := packages.Load(&packages.Config{
			Mode:  packages.LoadAllSyntax,
			Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
			Tests: true,
		}, "./...")
		if err != nil {
			fmt.Fprintf(os.Stderr, "typecheck %s: %v\n", system, err)
			os.Exit(1)
		}
		if packages.PrintErrors(loaded) > 0 {
			fmt.Fprintf(os.Stderr, "typecheck: it does not compile for %s\n", system)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
