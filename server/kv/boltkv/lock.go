package boltkv

import (
	"encoding/json"
	"fmt"
	"os"
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
	return fmt.Sprintf("data directory %s is in use by process %d, which serves %s", e.Dir, e.PID, e.Address)
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
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

func (s *Store) inUse() *InUseError {
	var h holder
	data, err := os.ReadFile(s.lockPath())
	if err != nil || json.Unmarshal(data, &h) != nil {
		h = holder{}
	}
	return &InUseError{Dir: s.options.Dir, PID: h.PID, Address: h.Address}
}
