//go:build !linux && !darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

var errUnsupported = fmt.Errorf("%w: the file backend works on Linux and macOS, not on %s; "+
	"use a backend with a server, such as redis://localhost:6379", errors.ErrUnsupported, runtime.GOOS)

// machineClock fails, and with it New, so that what follows is never called.
func machineClock() (func() moment, error) { return nil, errUnsupported }

func checkFilesystem(string) error { return errUnsupported }

func checkOwner(string) error { return errUnsupported }

func flock(*os.File) (bool, error) { return false, errUnsupported }

func funlock(*os.File) error { return errUnsupported }
