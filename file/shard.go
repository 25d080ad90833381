package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// shards is how many files the keys are spread over.
const shards = 256

// shard is one of them.
type shard struct {
	gate chan struct{}
	path string // without an extension
	sync func(*os.File) error
}

func (l *Locker) shard(n int) shard {
	return shard{l.gates[n], filepath.Join(l.dir, fmt.Sprintf("%02x", n)), l.sync}
}

func (l *Locker) shardOf(key string) shard {
	return l.shard(int(sha256.Sum256([]byte(key))[0]))
}

func (s shard) lockFile() string  { return s.path + ".lock" }
func (s shard) stateFile() string { return s.path + ".state" }

// read returns the state as it is. It needs no lock, since a state is replaced as a
// whole.
func (s shard) read() (*state, error) {
	b, err := s.readFile()
	if err != nil {
		return nil, unavailable(err)
	}
	if b == nil {
		return &state{Grants: make(map[string]grant)}, nil
	}
	st, err := decode(b)
	if err != nil {
		return nil, unavailable(fmt.Errorf("the state file %s is damaged: %w; it is not known who holds the locks in it: "+
			"stop the programs that may, then delete it", s.stateFile(), err))
	}
	return st, nil
}

// readFile returns the content of the state file, or nil if there is none yet. If its
// directory is gone that is an error: a file system that is not mounted any more does not
// mean that no lock is held. So the file must be missing in a directory that was opened.
func (s shard) readFile() ([]byte, error) {
	b, err := os.ReadFile(s.stateFile())
	if !errors.Is(err, os.ErrNotExist) {
		return b, err
	}
	dir, err := os.OpenRoot(filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	b, err = dir.ReadFile(filepath.Base(s.stateFile()))
	if errors.Is(err, os.ErrNotExist) {
		b, err = nil, nil
	}
	return b, errors.Join(err, dir.Close())
}

// write replaces the state. The shard must be locked. After an error the state is
// the old one or the new one.
func (s shard) write(st *state) error {
	b, err := st.encode()
	if err != nil {
		return unavailable(err)
	}
	next := s.path + ".next" // one name for all, so that crashes leave one file at most
	if err := writeFile(next, b, s.sync); err != nil {
		return unavailable(errors.Join(err, os.Remove(next)))
	}
	if err := os.Rename(next, s.stateFile()); err != nil {
		return unavailable(errors.Join(err, os.Remove(next)))
	}
	if err := syncDir(filepath.Dir(s.path), s.sync); err != nil {
		return unavailable(err)
	}
	return nil
}

func writeFile(path string, b []byte, sync func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = sync(f)
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string, sync func(*os.File) error) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(sync(d), d.Close())
}

// errBusy is the cause of a context whose time for getting the lock file ran out.
var errBusy = errors.New("busy")

// lock locks the shard against other goroutines and other processes, waiting until
// ctx ends or for timeout. It returns the locked file, for unlock.
func (s shard) lock(ctx context.Context, timeout time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errBusy)
	defer cancel()
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, s.lockFailed(ctx, timeout)
	}
	f, err := s.flock(ctx)
	if err != nil {
		<-s.gate
		if ctx.Err() != nil {
			return nil, s.lockFailed(ctx, timeout)
		}
		return nil, unavailable(err)
	}
	return f, nil
}

func (s shard) lockFailed(ctx context.Context, timeout time.Duration) error {
	if err := context.Cause(ctx); err != errBusy {
		return unavailable(err)
	}
	return unavailable(fmt.Errorf("the lock file %s is kept locked for %s now, by a process that was stopped or by a disk that hangs: "+
		"lslocks or lsof tells which process; continue it or end it", s.lockFile(), timeout))
}

// flock polls, since a flock that blocks cannot be given up.
func (s shard) flock(ctx context.Context) (*os.File, error) {
	const shortest, longest = 50 * time.Microsecond, 4 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		f, err := s.tryFlock()
		if f != nil || err != nil {
			return f, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// tryFlock returns the lock file, locked, or nil if it is locked by another.
func (s shard) tryFlock() (*os.File, error) {
	f, err := os.OpenFile(s.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := s.claim(f)
	if !locked {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// claim locks f, the lock file as it was opened. It returns false if another has it
// locked, or if it was deleted meanwhile, by others: then it excludes nobody.
func (s shard) claim(f *os.File) (bool, error) {
	locked, err := flock(f)
	if !locked {
		return false, err
	}
	return isAt(f, s.lockFile())
}

func isAt(f *os.File, path string) (bool, error) {
	here, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(here, there), err
}

// unlock ends what lock began. With ring it touches the
// lock file, which wakes those that watch it.
func (s shard) unlock(f *os.File, ring bool) error {
	err := funlock(f)
	<-s.gate
	if ring {
		// What is watched for; unlike a write it works on a full disk. If it fails
		// waiters look a few seconds later.
		_ = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}
