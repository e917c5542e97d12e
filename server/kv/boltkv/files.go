package boltkv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Names of files that are written before they get the name under which they count.
const (
	spoolPattern   = "backup-*.tmp"
	keptPattern    = "schema-*.tmp"
	restorePattern = "restore-*.tmp"
	compactPattern = "compact-*.tmp"
	rewritePattern = "rewrite-*.tmp"
	createPattern  = "create-*.tmp"
	holderPattern  = "lock-*.tmp"
	probePattern   = "probe-*.tmp"
)

var leftoverPatterns = []string{
	spoolPattern, keptPattern, restorePattern, compactPattern, rewritePattern, createPattern, holderPattern,
	probePattern,
}

// removeLeftovers removes what processes left that were killed. It runs while the database is locked, so that nobody
// who needs the lock too has such a file under way.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() { // none of ours
			continue
		}
		for _, pattern := range leftoverPatterns {
			if ok, _ := filepath.Match(pattern, entry.Name()); !ok { // It fails only for a bad pattern.
				continue
			}
			// A process that makes a store at this moment may remove its own.
			if err := removeIfThere(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// isFileAt tells whether an open file is the one that has the name now.
func isFileAt(file *os.File, path string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, named), err
}

// link gives a file a second name, which must be free. Where the file system has no second names, the file is moved.
func link(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

func makeDir(dir string) error {
	_, err := os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the names of new files in a directory as durable as their contents.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // Directories cannot be synced there.
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
