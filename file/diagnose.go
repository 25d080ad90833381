package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/locker-go/locker"
)

var _ locker.Diagnoser = (*Locker)(nil)

// overlay is the kind of file system that the root of a container is on.
const overlay = "overlayfs"

// Diagnose looks at the directory, the file system that it is on, and all that is
// stored in it.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	findings := []locker.Finding{l.filesystem(), l.permissions(), l.space()}
	stored, err := l.stored(ctx)
	if err != nil {
		return findings, fail("diagnose", "", unavailable(err))
	}
	findings = append(findings, stored...)
	for i := range findings {
		findings[i].Target = l.dir
	}
	return findings, nil
}

// filesystem tells where locks do not hold, or do not outlive a failure.
func (l *Locker) filesystem() locker.Finding {
	f := locker.Finding{Check: "filesystem"}
	if err := checkFilesystem(l.dir); err != nil {
		f.Severity, f.Observed = locker.SeverityDanger, fmt.Sprintf("it %v", err)
		f.Reason = "Two machines, or two mounts on one, can hold one lock at once. It was allowed by any_filesystem."
		f.Remedy = "Choose a directory on a local disk, or a backend with servers. If only this machine uses the directory, and flock, rename and fsync work there as on a local disk, leave it."
		return f
	}
	switch kind := transient(l.dir); kind {
	case "":
		f.Severity, f.Observed = locker.SeverityOK, "local"
	case overlay:
		f.Severity, f.Observed = locker.SeverityWarning, kind+", as a container's own"
		f.Reason = "Other containers do not see these locks. When the container is removed the directory is, too; the next tokens are above the last ones only as far as the clock is right."
		f.Remedy = "Mount a volume there that all containers share which are to exclude each other."
	default:
		f.Severity, f.Observed = locker.SeverityWarning, kind+", in memory"
		f.Reason = "After a reboot the directory is gone: the next tokens are above the last ones only as far as the clock is right."
		f.Remedy = "Choose a directory on a disk, such as one below /var/lib."
	}
	return f
}

// permissions tells who else can replace the directory, and with it all locks. Others
// cannot write in it, or New had refused it.
func (l *Locker) permissions() locker.Finding {
	f := locker.Finding{Check: "permissions"}
	dir, err := filepath.EvalSymlinks(l.dir)
	if err == nil {
		err = checkOwner(dir)
	}
	if err != nil {
		f.Severity, f.Observed = locker.SeverityDanger, "the directory is not as it was when it was opened"
		f.Reason = fmt.Sprintf("What it keeps may not be the locks that others see: %v.", err)
		f.Remedy = "Give it back to this user alone, with mode 0700."
		return f
	}
	for path := dir; path != filepath.Dir(path); {
		path = filepath.Dir(path)
		info, err := os.Stat(path)
		if err != nil {
			f.Severity, f.Observed = locker.SeverityUnknown, "not told"
			f.Reason = fmt.Sprintf("Whether others can replace the directory is not known: %v.", err)
			f.Remedy = "Let this user look at the directories above."
			return f
		}
		if who := renamers(info); who != "" {
			f.Severity, f.Observed = locker.SeverityWarning, fmt.Sprintf("%s can be changed by %s", path, who)
			f.Reason = "They can put another directory in its place; whoever opens that then sees none of the locks that are held."
			f.Remedy = fmt.Sprintf("Take the right to write away from others, as by chmod go-w %s, or choose a directory elsewhere.", path)
			return f
		}
	}
	f.Severity, f.Observed = locker.SeverityOK, "this user's alone"
	return f
}

// The least room that there should be. A change writes one file of a shard.
const (
	leastBytes = 16 << 20
	leastFiles = 2 * shards
)

func (l *Locker) space() locker.Finding {
	f := locker.Finding{Check: "space"}
	bytes, files, err := room(l.dir)
	if err != nil {
		f.Severity, f.Observed = locker.SeverityUnknown, "not told"
		f.Reason = fmt.Sprintf("How much room is left is not known: %v.", err)
		f.Remedy = "Look by df."
		return f
	}
	f.Severity, f.Observed = locker.SeverityOK, fmt.Sprintf("%d MB free", bytes>>20)
	if bytes < leastBytes || files < leastFiles {
		f.Severity, f.Observed = locker.SeverityWarning, fmt.Sprintf("%d MB and %d files free", bytes>>20, files)
		f.Reason = "On a full disk no lock can be taken or renewed."
		f.Remedy = "Make room."
	}
	return f
}

// stored reads the state of all shards.
func (l *Locker) stored(ctx context.Context) ([]locker.Finding, error) {
	now := l.clock()
	var (
		held    int
		highest locker.Token
		damaged error
		bad     int
	)
	for n := range shards {
		if ctx.Err() != nil {
			return nil, locker.Ended(ctx)
		}
		st, err := l.shard(n).read()
		if err != nil {
			bad++
			damaged = err
			continue
		}
		st.prune(now)
		held += len(st.Grants)
		highest = max(highest, st.Fence)
	}
	state := locker.Finding{Check: "state", Severity: locker.SeverityOK, Observed: fmt.Sprintf("%d locks are held", held)}
	if damaged != nil {
		state.Severity = locker.SeverityDanger
		state.Observed = fmt.Sprintf("%d of %d state files cannot be read", bad, shards)
		state.Reason = fmt.Sprintf("The locks in such a file cannot be taken or given back: %v.", damaged)
		state.Remedy = "Stop the programs that use the directory, then delete the file."
		if errors.Is(damaged, fs.ErrPermission) || errors.Is(damaged, fs.ErrNotExist) {
			state.Remedy = "Give the file back to this user, or mount the directory again."
		}
	}
	tokens := locker.Finding{Check: "tokens", Severity: locker.SeverityOK, Observed: "not ahead of the clock"}
	if ahead := time.Duration(int64(highest)-now.wall.UnixMicro()) * time.Microsecond; ahead > 10*time.Second {
		tokens.Severity = locker.SeverityWarning
		tokens.Observed = fmt.Sprintf("%s ahead of the clock", ahead.Round(time.Second))
		tokens.Reason = "The clock was ahead, or is behind. Tokens rise all the same while the directory is kept; once it is lost, resources refuse the next ones for so long."
		tokens.Remedy = "Have the clock set by NTP, and keep the directory."
	}
	return []locker.Finding{state, tokens}, nil
}
