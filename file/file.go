package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

const (
	defaultNamespace = "locker"
	defaultTimeout   = 5 * time.Second
)

// Options configure a [Locker]. The zero value, and nil, are good.
type Options struct {
	// Namespace separates the keys of programs that share a directory. At most 128
	// characters of A-Z a-z 0-9 . _ -. Default "locker".
	Namespace string

	// Timeout bounds how long a call waits for other processes to finish their
	// changes of the same files, which take a millisecond or so each: it runs out if
	// one of them was stopped in the middle. Default 5 s.
	Timeout time.Duration

	// AnyFilesystem lets the directory be on a network or FUSE file system, which is
	// refused otherwise. It is safe only if no other machine uses the directory, and
	// if flock, rename and fsync work there as they do on a local disk.
	AnyFilesystem bool
}

// Locker keeps locks in a directory. It implements [locker.Waiter] and
// [locker.Admin].
type Locker struct {
	dir     string // of the namespace
	timeout time.Duration
	clock   func() moment
	gates   [shards]chan struct{} // each held by the goroutine that may try the flock
	sync    func(*os.File) error
	watch   watcher
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker that keeps its locks in dir, which is made with mode 0700 if
// it is missing. It fails with ErrInvalid if the options or the file system will not
// do, and with ErrUnavailable if dir cannot be made or written, or on an operating
// system that it does not work on.
func New(dir string, opts *Options) (*Locker, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if err := locker.ValidateNamespace(o.Namespace); err != nil {
		return nil, fail("open", "", err)
	}
	if o.Timeout < 0 {
		return nil, fail("open", "", fmt.Errorf("%w: the timeout is %s; it must be positive", locker.ErrInvalid, o.Timeout))
	}
	if dir == "" {
		return nil, fail("open", "", fmt.Errorf("%w: the directory is empty", locker.ErrInvalid))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail("open", "", unavailable(err))
	}
	clock, err := machineClock()
	if err != nil {
		return nil, fail("open", "", unavailable(err))
	}
	l := &Locker{dir: filepath.Join(dir, namespaceDir(o.Namespace)), timeout: o.Timeout, clock: clock, sync: (*os.File).Sync}
	for i := range l.gates {
		l.gates[i] = make(chan struct{}, 1)
	}
	if err := makeDir(l.dir); err != nil {
		return nil, fail("open", "", unavailable(fmt.Errorf("the lock directory %s cannot be made: %w; "+
			"make it for this user, or choose another", dir, err)))
	}
	if err := errors.Join(checkOwner(l.dir), checkWritable(l.dir)); err != nil {
		return nil, fail("open", "", unavailable(fmt.Errorf("the lock directory %s cannot be used: %w; "+
			"choose one that this user, and no other, may write", l.dir, err)))
	}
	if !o.AnyFilesystem {
		if err := checkFilesystem(l.dir); err != nil {
			return nil, fail("open", "", fmt.Errorf("%w: the lock directory %s %w; choose a directory on a local disk, "+
				"a backend with a server, or, if no other machine uses the directory, set any_filesystem", locker.ErrInvalid, dir, err))
		}
	}
	return l, nil
}

// Close ends the goroutine that the first wait started. It gives back no lock, and calls
// that are made after it do as before, except that waiters poll.
func (l *Locker) Close() error {
	if err := l.watch.close(); err != nil {
		return fail("close", "", unavailable(err))
	}
	return nil
}

// namespaceDir returns a file name for namespace that differs from every other's
// also where file names ignore case, and that is neither . nor .. .
func namespaceDir(namespace string) string {
	sum := sha256.Sum256([]byte(namespace))
	return strings.ToLower(namespace) + "-" + hex.EncodeToString(sum[:8])
}

// makeDir makes dir and its parents where they are missing, and makes that durable.
func makeDir(dir string) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrNotExist) && parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(parent, (*os.File).Sync)
}

// checkWritable proves that files can be made in dir.
func checkWritable(dir string) error {
	probe := filepath.Join(dir, "probe")
	f, err := os.OpenFile(probe, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Remove(probe); err != nil && !errors.Is(err, os.ErrNotExist) { // another process may be at the same
		return err
	}
	return nil
}

func fail(op, key string, err error) error {
	return &locker.OpError{Op: op, Backend: "file", Key: key, Err: err}
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", locker.ErrUnavailable, err) }
