//go:build !linux

package file

// watcher is for Linux. Elsewhere waiters ask again and again.
type watcher struct{}

func (*watcher) start(string) (wake <-chan struct{}, stop func()) { return nil, func() {} }

func (*watcher) close() error { return nil }
