//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/cmd/locker/internal/group"
	"github.com/locker-go/locker/memory"
)

// toldOfLoss is a program for the scripts: it runs a shell script whose lock is lost, long
// before its deadline, when there is a file "ready", and prints what became of it.
func toldOfLoss() {
	if guarded() {
		return
	}
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	a := &app{out: os.Stdout, err: os.Stderr}
	ctx, stop := a.interruptible(context.Background())
	defer stop()
	client := locker.New(memory.New(nil), &locker.Options{TTL: time.Hour})
	hold, err := client.Lock(ctx, "k")
	fail(err)
	g, err := group.New()
	fail(err)
	s := newSupervisor(a, g, hold, time.Minute)
	fail(g.Start("/bin/sh", []string{"sh", "-c", os.Args[1]}, os.Environ()))
	closed := make(chan error)
	go func() {
		for {
			if _, err := os.Stat("ready"); err == nil {
				closed <- client.Close() // ends its holds as if they were lost
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	status := s.supervise()
	fail(<-closed)
	fail(g.Close())
	fmt.Printf("lost %t, exit code %d\n", s.lost, status)
}
