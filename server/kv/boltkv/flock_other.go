//go:build !((darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android)

package boltkv

import (
	"errors"
	"os"
)

// flock cannot take bbolt's lock on this system.
func flock(*os.File) (locked bool, err error) { return false, errors.ErrUnsupported }
