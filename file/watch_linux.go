package file

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells the waiters of a Locker that a lock file was touched, which is what a
// release does. From the first wait until close it has one inotify instance, of which
// a user has 128 by default, and one goroutine. The instance is kept since closing it
// takes the kernel some 10 ms, while adding or removing a watch takes 20 us.
type watcher struct {
	mu     sync.Mutex
	open   *inotify
	closed bool
}

type inotify struct {
	fd      int // of file, whose Fd method would make it blocking
	file    *os.File
	waiters map[int32]map[chan struct{}]struct{} // by watch descriptor
	done    chan struct{}                        // closed when its goroutine ended
}

// start watches a lock file until stop is called. Where that cannot be, since the
// user has no instance or watch left, wake is nil: then waiters ask again and again.
func (w *watcher) start(path string) (wake <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil && !w.closed {
		if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
			w.open = &inotify{fd, os.NewFile(uintptr(fd), "inotify"), make(map[int32]map[chan struct{}]struct{}), make(chan struct{})}
			go w.deliver(w.open)
		}
	}
	in := w.open
	if in == nil {
		return nil, func() {}
	}
	n, err := unix.InotifyAddWatch(in.fd, path, unix.IN_ATTRIB)
	if err != nil {
		return nil, func() {}
	}
	wd, c := int32(n), make(chan struct{}, 1)
	if in.waiters[wd] == nil {
		in.waiters[wd] = make(map[chan struct{}]struct{})
	}
	in.waiters[wd][c] = struct{}{}
	return c, func() { w.stop(in, wd, c) }
}

// stop ends the watch of one waiter.
func (w *watcher) stop(in *inotify, wd int32, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(in.waiters[wd], c)
	if len(in.waiters[wd]) > 0 {
		return
	}
	delete(in.waiters, wd)
	if w.open == in { // else its descriptor may be another file's by now
		// It fails only if the lock file, and the watch with it, is gone.
		_, _ = unix.InotifyRmWatch(in.fd, uint32(wd))
	}
}

// close ends all watching for good.
func (w *watcher) close() error {
	w.mu.Lock()
	in := w.open
	w.open, w.closed = nil, true
	w.mu.Unlock()
	if in == nil {
		return nil
	}
	err := in.file.Close()
	<-in.done
	return err
}

// deliver wakes waiters until the instance is closed or fails.
func (w *watcher) deliver(in *inotify) {
	defer close(in.done)
	events := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := in.file.Read(events)
		w.mu.Lock()
		if err != nil {
			in.wakeAll()
			failed := w.open == in
			if failed {
				w.open = nil // the next waiter opens another
			}
			w.mu.Unlock()
			if failed {
				_ = in.file.Close() // nothing was written that could be lost
			}
			return
		}
		for e := events[:n]; len(e) >= unix.SizeofInotifyEvent; {
			wd, name := int32(binary.NativeEndian.Uint32(e)), binary.NativeEndian.Uint32(e[12:])
			if wd < 0 { // the queue overflowed: events were lost
				in.wakeAll()
			}
			wakeUp(in.waiters[wd])
			e = e[unix.SizeofInotifyEvent+name:]
		}
		w.mu.Unlock()
	}
}

func (in *inotify) wakeAll() {
	for _, waiters := range in.waiters {
		wakeUp(waiters)
	}
}

func wakeUp(waiters map[chan struct{}]struct{}) {
	for c := range waiters {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
