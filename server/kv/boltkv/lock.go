package boltkv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// InUseError means that another process holds the data directory.
type InUseError struct {
	// Dir is the data directory.
	Dir string
	// PID and Address are what LOCK says of the holder; zero where it says nothing, because the holder only reads,
	// or is starting.
	PID     int
	Address string
}

// Error implements error.
func (e *InUseError) Error() string {
	switch {
	case e.PID == 0:
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	case e.Address == "":
		return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
	}
	address := strconv.Quote(e.Address) // It is what a file says, and may be anything.
	if address == `"`+e.Address+`"` && !strings.Contains(e.Address, " ") {
		address = e.Address
	}
	return fmt.Sprintf("data directory %s is in use by process %d, which serves %s", e.Dir, e.PID, address)
}

// holder is the content of LOCK. It informs; the lock is that of the database file, which a dead process never holds.
type holder struct {
	PID     int    `json:"pid"`
	Address string `json:"address"`
}

func writeHolder(path, address string) error {
	data, err := json.Marshal(holder{PID: os.Getpid(), Address: address})
	if err != nil {
		return err
	}
	// Whatever has the name is replaced, and not written to: it may be a link, or a pipe.
	file, err := os.CreateTemp(filepath.Dir(path), holderPattern)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// maxHolderBytes is more than a LOCK has that we wrote.
const maxHolderBytes = 4 << 10

// readHolder returns what LOCK says, and the zero value where it says nothing that we wrote.
func readHolder(path string) holder {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHolderBytes {
		return holder{}
	}
	var h holder
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &h) != nil || h.PID <= 0 {
		return holder{}
	}
	return h
}

func (s *Store) inUse() *InUseError {
	h := readHolder(s.lockPath())
	return &InUseError{Dir: s.options.Dir, PID: h.PID, Address: h.Address}
}
