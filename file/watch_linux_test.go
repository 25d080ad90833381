package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locker-go/locker"
)

// watching waits until n waiters watch.
func watching(t *testing.T, l *Locker, n int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		got := 0
		l.watch.mu.Lock()
		if l.watch.open != nil {
			for _, waiters := range l.watch.open.waiters {
				got += len(waiters)
			}
		}
		l.watch.mu.Unlock()
		if got == n {
			return
		}
	}
	t.Fatalf("there are not %d that watch", n)
}

// A release, a break and a shorter renewal wake the waiters of other Lockers, which would
// look again after 5 s at the earliest.
func TestWake(t *testing.T) {
	dir := t.TempDir()
	holder, waiter := open(t, dir, nil), open(t, dir, nil)
	for _, c := range []struct {
		what string
		end  func(locker.Lease) error
	}{
		{"release", func(lease locker.Lease) error { return holder.Release(t.Context(), lease) }},
		{"break", func(lease locker.Lease) error { return waiter.Break(t.Context(), lease.Holding()) }},
		{"shorter renewal", func(lease locker.Lease) error {
			_, err := holder.Renew(t.Context(), lease, locker.MinTTL)
			return err
		}},
	} {
		lease := acquire(t, holder, "k", time.Hour)
		var wg sync.WaitGroup
		wg.Go(func() {
			next, err := waiter.AcquireWait(t.Context(), "k", time.Minute)
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
				return
			}
			if err := waiter.Release(t.Context(), next); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		})
		watching(t, waiter, 1)
		begin := time.Now()
		if err := c.end(lease); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		wg.Wait()
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("%s: the hand-off took %s", c.what, took)
		}
	}
}

// Waiters of many keys share one inotify instance and one goroutine, and leave no watch behind
// (go-zk#76 kept the watches of cancelled waiters).
func TestWatchersAreFew(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	before := runtime.NumGoroutine()
	var stops []func()
	for n := range 3 * shards {
		s := l.shard(n % shards)
		f, err := s.lock(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.unlock(f, false); err != nil {
			t.Fatal(err)
		}
		wake, stop := l.watch.start(s.lockFile())
		if wake == nil {
			t.Fatalf("no watch for the waiter %d", n)
		}
		stops = append(stops, stop)
	}
	if extra := runtime.NumGoroutine() - before; extra > 1 {
		t.Errorf("%d goroutines", extra)
	}
	for _, stop := range stops {
		stop()
	}
	if n := len(l.watch.open.waiters); n > 0 {
		t.Errorf("%d files are watched for nobody", n)
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", l.watch.open.fd))
	if err != nil || bytes.Contains(info, []byte("inotify wd")) {
		t.Errorf("watches are left: %s, %v", info, err)
	}
}

func TestWatchOfAMissingFile(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	wake, stop := l.watch.start(filepath.Join(l.dir, "missing"))
	if wake != nil {
		t.Error("a missing file is watched")
	}
	stop()
}

// Close disturbs nobody who waits: it makes them look once more, and then poll.
func TestCloseDuringAWait(t *testing.T) {
	dir := t.TempDir()
	holder, waiter := open(t, dir, nil), open(t, dir, nil)
	acquire(t, holder, "k", time.Hour)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := waiter.AcquireWait(t.Context(), "k", time.Minute); err != nil {
			t.Error(err)
		}
	})
	watching(t, waiter, 1)
	err := holder.update(t.Context(), "k", func(st *state) (bool, error) {
		delete(st.Grants, "k")
		return false, nil // which wakes nobody
	})
	if err := errors.Join(err, waiter.Close(), waiter.Close()); err != nil {
		t.Error(err)
	}
	if wake, _ := waiter.watch.start(waiter.shardOf("k").lockFile()); wake != nil {
		t.Error("it watches although it is closed")
	}
	wg.Wait()
}

// A user who may not write the directory is told so at open, by its name.
func TestDirectoryOfAnotherUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "readonly")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// For this thread only, and not unlocked, so that the thread ends with the test.
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Setfsuid(0); err != nil {
				t.Error(err)
			}
		}()
	}
	_, err := New(dir, nil)
	if !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, os.ErrPermission) {
		t.Fatalf("got %v, want ErrUnavailable and ErrPermission", err)
	}
	t.Log(err)
}

func TestRemoteFilesystem(t *testing.T) {
	var fs unix.Statfs_t
	dir := t.TempDir()
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	magic := uint32(fs.Type)
	if was, ok := remote[magic]; ok {
		t.Skipf("the temporary directory is on %s", was)
	}
	remote[magic] = "test"
	defer delete(remote, magic)
	_, err := New(dir, nil)
	if !errors.Is(err, locker.ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	t.Log(err)
	open(t, dir, &Options{AnyFilesystem: true})
}
