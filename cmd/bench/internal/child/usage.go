package child

import (
	"fmt"
	"runtime"

	"github.com/prometheus/procfs"
)

// Usage is what the system counts about a process, from its start.
type Usage struct {
	// CPUSeconds is the time that it ran, its own and the system's for it. Linux counts in steps of 10 ms.
	CPUSeconds float64
	// ReadBytes is what the disk gave it.
	ReadBytes float64
	// AnonBytes is the memory it has at the moment that no file backs.
	AnonBytes float64
}

// Usage returns what the system counted until now; nil where the system is not Linux, which alone says all of it.
func (p *Process) Usage() (*Usage, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	u, err := usage(p.PID())
	if err != nil {
		return nil, fmt.Errorf("read what %s used: %w", p.name, err)
	}
	return &u, nil
}

func usage(pid int) (Usage, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return Usage{}, err
	}
	io, err := proc.IO()
	if err != nil {
		return Usage{}, err
	}
	status, err := proc.NewStatus()
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPUSeconds: stat.CPUTime(),
		ReadBytes:  float64(io.ReadBytes),
		AnonBytes:  float64(status.RssAnon),
	}, nil
}
