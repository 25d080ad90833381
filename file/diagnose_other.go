//go:build !linux && !darwin

package file

import "io/fs"

// As New fails, these are never called.

func room(string) (bytes, files uint64, err error) { return 0, 0, errUnsupported }

func renamers(fs.FileInfo) string { return "" }

func transient(string) string { return "" }
