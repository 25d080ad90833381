package file

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells the waiters of a Locker that a lock file was touched, which is what a
// release does. While somebody waits it has one inotify instance, of which a user has
// 128 by default, and one goroutine.
type watcher struct {
	mu   sync.Mutex
	open *inotify
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
	in := w.open
	if in == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, func() {}
		}
		in = &inotify{fd, os.NewFile(uintptr(fd), "inotify"), make(map[int32]map[chan struct{}]struct{}), make(chan struct{})}
		w.open = in
		go w.deliver(in)
	}
	wd, err := unix.InotifyAddWatch(in.fd, path, unix.IN_ATTRIB)
	if err != nil {
		if len(in.waiters) == 0 {
			w.open = nil
			return nil, func() { in.close() }
		}
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	if in.waiters[int32(wd)] == nil {
		in.waiters[int32(wd)] = make(map[chan struct{}]struct{})
	}
	in.waiters[int32(wd)][c] = struct{}{}
	return c, func() { w.stop(in, int32(wd), c) }
}

// stop ends one waiter's watch, and with the last one the instance.
func (w *watcher) stop(in *inotify, wd int32, c chan struct{}) {
	w.mu.Lock()
	delete(in.waiters[wd], c)
	if len(in.waiters[wd]) == 0 {
		delete(in.waiters, wd)
		// It fails only if the file, and the watch with it, is gone.
		_, _ = unix.InotifyRmWatch(in.fd, uint32(wd))
	}
	idle := len(in.waiters) == 0
	if idle {
		w.open = nil
	}
	w.mu.Unlock()
	if idle {
		in.close()
	}
}

// close ends the instance and waits for its goroutine, which needs the watcher's mutex.
func (in *inotify) close() {
	_ = in.file.Close() // nothing was written that could be lost
	<-in.done
}

// deliver wakes waiters until the instance is closed.
func (w *watcher) deliver(in *inotify) {
	defer close(in.done)
	events := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := in.file.Read(events)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		w.mu.Lock()
		if err != nil {
			if w.open == in {
				w.open = nil // for the next waiter to open another
			}
			in.wakeAll()
			w.mu.Unlock()
			return
		}
		for e := events[:n]; len(e) >= unix.SizeofInotifyEvent; {
			wd, name := int32(binary.NativeEndian.Uint32(e)), binary.NativeEndian.Uint32(e[12:])
			if wd < 0 { // events were lost
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
