package bench

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// grant is a lock that a goroutine got.
type grant struct {
	process, goroutine int
	at                 int64 // ns by the machine's clock, while it was held
}

// contend has goroutines take the lock of key again and again until ctx ends.
func contend(ctx context.Context, c client, key string, goroutines int) ([]grant, error) {
	var (
		mu     sync.Mutex
		grants []grant
		errs   []error
		wg     sync.WaitGroup
	)
	takeOnce := func(goroutine int) error {
		unlock, err := c.lock(ctx, key)
		if ctx.Err() != nil && err != nil {
			return nil // redsync does not say that it was the context
		}
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		mu.Lock()
		grants = append(grants, grant{goroutine: goroutine, at: time.Now().UnixNano()})
		mu.Unlock()
		return unlock()
	}
	for g := range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := takeOnce(g); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return grants, errors.Join(errs...)
}

// contender names who had a grant.
type contender struct{ process, goroutine int }

func (g grant) contender() contender { return contender{g.process, g.goroutine} }

// handOffs returns how often the lock went from one contender to another.
func handOffs(grants []grant) int {
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	n := 0
	for i := 1; i < len(grants); i++ {
		if grants[i].contender() != grants[i-1].contender() {
			n++
		}
	}
	return n
}

// jain is Jain's fairness index over n contenders: 1 where all got the same, 1/n
// where one got all.
func jain(grants []grant, n int) float64 {
	counts := make(map[contender]float64)
	for _, g := range grants {
		counts[g.contender()]++
	}
	var sum, squares float64
	for _, c := range counts {
		sum += c
		squares += c * c
	}
	return sum * sum / (float64(n) * squares)
}

// In a process that is to contend: with what library, on which server, for which key,
// by how many goroutines, and for how long.
const orderEnv = "LOCKER_BENCH_ORDER"

const orderFormat = "%s %s %s %d %d"

// obey contends as it was ordered to once it is told on its standard input, and
// prints its grants. It returns the exit code.
func obey(order string) int {
	grants, err := contendWhenTold(order)
	for _, g := range grants {
		fmt.Println(g.goroutine, g.at)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func contendWhenTold(order string) (grants []grant, err error) {
	var (
		name, addr, key string
		goroutines      int
		slot            time.Duration
	)
	if _, err := fmt.Sscanf(order, orderFormat, &name, &addr, &key, &goroutines, &slot); err != nil {
		return nil, fmt.Errorf("order %q: %w", order, err)
	}
	p, err := peerNamed(name)
	if err != nil {
		return nil, err
	}
	c, err := p.open(addr)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := warmUp(ctx, c, fmt.Sprint("warm", os.Getpid())); err != nil {
		return nil, err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("was never told to begin: %w", err)
	}
	ctx, end := context.WithTimeout(ctx, slot)
	defer end()
	return contend(ctx, c, key, goroutines)
}

// warmUp connects, and loads scripts.
func warmUp(ctx context.Context, c client, key string) error {
	unlock, err := c.lock(ctx, key)
	if err != nil {
		return fmt.Errorf("warm up: lock: %w", err)
	}
	return unlock()
}

// process is one that contends.
type process struct {
	cmd   *exec.Cmd
	begin io.WriteCloser
	out   *bufio.Reader
}

// startProcess starts a process and waits until it is ready to begin.
func startProcess(b *testing.B, order string) *process {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), orderEnv+"="+order)
	cmd.Stderr = os.Stderr
	begin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = begin.Close() // it ends, if it was not yet told to begin
		_ = cmd.Wait()    // an error where it has been waited for
	})
	p := &process{cmd: cmd, begin: begin, out: bufio.NewReader(out)}
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		b.Fatalf("a process to contend was not ready: it said %q; %v", line, err)
	}
	return p
}

// wait returns what the process was granted, once it has ended.
func (p *process) wait(number int) ([]grant, error) {
	var grants []grant
	for {
		g := grant{process: number}
		_, err := fmt.Fscanln(p.out, &g.goroutine, &g.at)
		if err == io.EOF {
			return grants, p.cmd.Wait()
		}
		if err != nil {
			return nil, errors.Join(err, p.cmd.Wait())
		}
		grants = append(grants, g)
	}
}
