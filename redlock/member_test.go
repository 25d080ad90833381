package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// scripted is a node whose answers, and what happens before them, a test sets.
type scripted struct {
	node // its other methods are not called
	m    *member
	run  string // of the process that answers
	look func() // before it does
	vote func()
}

func (s *scripted) Look(context.Context, string) (redisnode.Identity, error) {
	answers := s.run
	s.look()
	return redisnode.Identity{
		Run: answers, Role: "master", Time: time.Now(), Marked: true,
		Marker: redisnode.Marker{Run: answers, Membership: s.m.group.membership, Reason: redisnode.First},
	}, nil
}

func (s *scripted) Vote(context.Context, redisnode.Grant, time.Duration, redisnode.Marker) (redisnode.Answer, error) {
	s.vote()
	return redisnode.Answer{Status: redisnode.Granted}, nil
}

func newScripted() *scripted {
	m := &member{group: &group{report: func(locker.Event) {}}, addr: "n"}
	s := &scripted{m: m, run: "1", look: func() {}, vote: func() {}}
	m.node = s
	m.group.members = []*member{m}
	return s
}

func (s *scripted) mustConnect(t *testing.T) {
	t.Helper()
	if err := s.m.connected(s.run); err != nil {
		t.Fatalf("connect to process %s: %v", s.run, err)
	}
}

func (s *scripted) take() error {
	_, err := s.m.vote(context.Background(), redisnode.Grant{}, time.Second)
	return err
}

// A node that was started again may still have the marker of before, with data that
// are older. A vote of which it is not sure who gave it does not count.
func TestVoteOfAnotherProcess(t *testing.T) {
	t.Run("a connection that is made for it", func(t *testing.T) {
		s := newScripted()
		s.mustConnect(t)
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		s.run = "2"
		if err := s.m.connected("2"); err != errRestarted {
			t.Errorf("a connection to another process than is known = %v, want errRestarted", err)
		}
	})
	t.Run("a connection that others made meanwhile", func(t *testing.T) {
		s := newScripted()
		s.mustConnect(t)
		s.vote = func() {
			s.vote = func() {}
			s.run = "2"
			_ = s.m.connected("2") // fails, and the next does not
			s.mustConnect(t)
		}
		if err := s.take(); !errors.Is(err, errStranger) || definite(err) {
			t.Errorf("the vote = %v; want errStranger, which leaves the outcome open", err)
		}
		if err := s.take(); err != nil {
			t.Errorf("the next vote: %v", err)
		}
	})
	t.Run("known again meanwhile, as another", func(t *testing.T) {
		s := newScripted()
		s.mustConnect(t)
		s.vote = func() {
			s.vote = func() {}
			s.run = "2"
			_ = s.m.connected("2")
			s.mustConnect(t)
			if _, err := s.m.identify(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.take(); !errors.Is(err, errStranger) {
			t.Errorf("the vote = %v; want errStranger", err)
		}
	})
}

// What a process said of itself does not hold for the next.
func TestAnswerOfAnotherProcess(t *testing.T) {
	for name, meanwhile := range map[string]func(s *scripted){
		"one connection":  func(s *scripted) { s.run = "2"; _ = s.m.connected("2") },
		"two connections": func(s *scripted) { _ = s.m.connected("2"); s.run = "3"; _ = s.m.connected("3") },
		"back and forth":  func(s *scripted) { _ = s.m.connected("2"); _ = s.m.connected("1"); s.run = "2" },
	} {
		s := newScripted()
		s.mustConnect(t)
		s.look = func() { s.look = func() {}; meanwhile(s) }
		if k, err := s.m.identify(t.Context()); err != errRestarted {
			t.Errorf("%s: identify = %+v, %v; want errRestarted", name, k, err)
		}
		if k, err := s.m.identify(t.Context()); err != nil || k.run != s.run {
			t.Errorf("%s: asked again it is %+v, %v; want process %s", name, k, err, s.run)
		}
	}
}

// A connection whose process ended long ago may be heard of late. The node goes on
// voting.
func TestLateConnection(t *testing.T) {
	s := newScripted()
	s.run = "2"
	s.mustConnect(t)
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	if err := s.m.connected("1"); err != errRestarted {
		t.Errorf("a connection to the process of before = %v, want errRestarted", err)
	}
	if err := s.take(); err != nil {
		t.Errorf("the vote after that: %v", err)
	}
}
